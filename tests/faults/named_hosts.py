"""Host names that exist for one relay alone: it runs with an /etc/hosts of its own. Needs root.

    with NamedHosts() as hosts, hosts.relay(outbox) as relay:
        hosts.set({"kafka.test": "127.0.0.1"})
"""

import shlex
import tempfile
from pathlib import Path

from support.relay import RelayProcess, relay_binary


class NamedHosts:
    def __init__(self):
        self._directory = tempfile.TemporaryDirectory(prefix="outbox-relay-hosts-")
        root = Path(self._directory.name)
        self._hosts = root / "hosts"
        self._resolve_by_file = root / "nsswitch.conf"
        self._resolve_by_file.write_text("hosts: files\n")
        self._program = root / "relay"
        mounts = " && ".join(f"mount --bind {shlex.quote(str(ours))} {theirs}" for ours, theirs in (
            (self._hosts, "/etc/hosts"), (self._resolve_by_file, "/etc/nsswitch.conf")))
        script = f'{mounts} && exec {shlex.quote(str(relay_binary()))} "$@"'
        self._program.write_text(f"#!/bin/sh\nexec unshare --mount sh -c {shlex.quote(script)} relay \"$@\"\n")
        self._program.chmod(0o755)
        self.set({})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._directory.cleanup()

    def set(self, addresses):
        """Name to address; in place, since the file is what is mounted."""
        self._hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{at} {name}\n" for name, at in addresses.items()))

    def relay(self, outbox, **changes):
        return RelayProcess(outbox.changed_config(**changes), binary=self._program)
