"""Loopback TCP ports that stay ours for as long as this Python process lives.

They come from below the kernel's ephemeral range: a client that keeps connecting to a stopped
server's port would otherwise, sooner or later, be given that very port as its own and talk to itself.
A lock file per port keeps test processes that run at the same time apart.
"""

import errno
import fcntl
import os
import random
import socket
import tempfile

_held_locks = []


def free_port():
    """A port that nobody listens on and that no other test process has been given."""
    lock_dir = os.path.join(tempfile.gettempdir(), f"outbox-relay-ports-{os.getuid()}")
    os.makedirs(lock_dir, mode=0o700, exist_ok=True)
    chooser = random.SystemRandom()
    low, high = _range_below_ephemeral()
    for _ in range(1000):
        port = chooser.randrange(low, high)
        lock = open(os.path.join(lock_dir, str(port)), "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _check_bindable(port)
        except OSError as error:
            lock.close()
            if error.errno not in (errno.EADDRINUSE, errno.EAGAIN, errno.EACCES):
                raise
            continue
        _held_locks.append(lock)
        return port
    raise RuntimeError(f"no free loopback port found between {low} and {high}")


def _range_below_ephemeral():
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        ephemeral_low = int(file.read().split()[0])
    return (10000, ephemeral_low) if ephemeral_low >= 12000 else (10000, 65000)


def _check_bindable(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
