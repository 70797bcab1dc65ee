"""A network namespace of its own, joined to ours by a pair of veth devices, for faults that only a network has.

    with Netns() as net, Postgres(15, netns=net) as pg:    # Lives behind the cable, at net.inside.
        with net.silent():                                 # Nothing arrives in either direction, and no RST.
            ...

It needs root (CAP_NET_ADMIN), `ip` and `iptables`; a test that asks for it without them fails and says so.
"""

import atexit
import itertools
import os
import shutil
import subprocess
from contextlib import contextmanager

_numbers = itertools.count()


class Netns:
    def __init__(self):
        if os.getuid() != 0:
            raise PermissionError("a network namespace needs root")
        for program in ("ip", "iptables"):
            if _found(program) is None:
                raise FileNotFoundError(f"{program} is missing: tests/support/install_packages.sh tests")
        unique = os.getpid() * 16 + next(_numbers) % 16
        self.name = f"outbox-relay-{unique}"
        # A pair of addresses in 198.18.0.0/15, which is reserved for such tests and never routed.
        block = unique % (1 << 15)
        self.outside, self.inside = (f"198.18.{block >> 6 & 255}.{(block & 63) * 4 + host}" for host in (1, 2))
        self._device, self._peer = f"or{unique}a", f"or{unique}b"
        atexit.register(self.close)
        _ip("netns", "add", self.name)
        _ip("link", "add", self._device, "type", "veth", "peer", "name", self._peer, "netns", self.name)
        _ip("address", "add", f"{self.outside}/30", "dev", self._device)
        _ip("link", "set", self._device, "up")
        self._inside("ip", "address", "add", f"{self.inside}/30", "dev", self._peer)
        self._inside("ip", "link", "set", self._peer, "up")
        self._inside("ip", "link", "set", "lo", "up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        atexit.unregister(self.close)
        subprocess.run([_found("ip"), "link", "delete", self._device], capture_output=True, check=False)
        subprocess.run([_found("ip"), "netns", "delete", self.name], capture_output=True, check=False)

    def command(self, program, *arguments, account=None):
        """What to start as root so that it runs inside, as that account; the pid is the program's."""
        become = [] if account is None else [
            _found("setpriv"), f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        return [_found("ip"), "netns", "exec", self.name, *become, str(program), *map(str, arguments)]

    @contextmanager
    def silent(self):
        """Every packet of the cable is dropped, in both directions."""
        with self._rule("INPUT", "-i", self._peer, "-j", "DROP"), self._rule("OUTPUT", "-o", self._peer, "-j", "DROP"):
            yield

    @contextmanager
    def refused(self):
        """Every TCP packet that comes in over the cable inside is answered by an RST."""
        with self._rule("INPUT", "-i", self._peer, "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"):
            yield

    @contextmanager
    def _rule(self, *rule):
        self._inside("iptables", "-I", *rule)
        try:
            yield
        finally:
            self._inside("iptables", "-D", *rule)

    def _inside(self, program, *arguments):
        _run(self.command(_found(program), *arguments))


def _ip(*arguments):
    _run([_found("ip"), *arguments])


def _run(command):
    done = subprocess.run(command, text=True, capture_output=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")


def _found(program):
    return shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin")
