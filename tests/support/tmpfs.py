"""A small file system in memory, to be filled up. Needs root."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(path, megabytes):
    """A SmallDisk mounted at `path` for as long as the block lasts."""
    disk = SmallDisk(Path(path), megabytes)
    try:
        yield disk
    finally:
        disk.close()


class SmallDisk:
    def __init__(self, path, megabytes):
        self.path = path
        path.mkdir(exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "outbox-relay-test", path)

    def close(self):
        # Lazily: whoever still has a file open there must not keep the mount from going.
        _run("umount", "-l", self.path)

    def fill(self):
        """Leaves no room; the file that takes it."""
        ballast = self.path / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65536))
            except OSError:
                pass
        return ballast

    def resize(self, megabytes):
        _run("mount", "-o", f"remount,size={megabytes}m", self.path)

    def free_bytes(self):
        about = os.statvfs(self.path)
        return about.f_bavail * about.f_frsize


def _run(*command):
    done = subprocess.run([*map(str, command)], text=True, capture_output=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
