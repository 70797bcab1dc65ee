"""One server process that we start, with its output in a file, and that ends when we do."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from . import reaper


def service_account():
    """Whom servers run as that refuse root: `postgres` when we are root, otherwise ourselves."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        raise RuntimeError("running as root needs the system user postgres: "
                           "tests/support/install_packages.sh tests") from None


def make_directory(name, account=None):
    """A private temporary directory; remove it with `remove_directory`."""
    path = Path(tempfile.mkdtemp(prefix=f"outbox-relay-{name}-"))
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)
    reaper.look_after_directory(path)
    return path


def remove_directory(path):
    shutil.rmtree(path, ignore_errors=True)
    reaper.forget_directory(path)


def as_account(account):
    """The arguments of subprocess that start a program as that account."""
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class Process:
    """A started program. `log_path` collects its stdout and stderr over restarts.

    With `stdout_path`, its standard output goes there instead.
    """

    def __init__(self, command, log_path, cwd=None, env=None, account=None, stdout_path=None):
        self.command = [str(part) for part in command]
        self.log_path = Path(log_path)
        with open(self.log_path, "ab") as log, open(stdout_path or os.devnull, "ab") as out:
            self._popen = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out if stdout_path else log,
                stderr=log, cwd=cwd, env=env, start_new_session=True, **as_account(account))
        reaper.look_after_process(self.pid)

    @property
    def pid(self):
        return self._popen.pid

    @property
    def exit_code(self):
        """None while it runs; negative when a signal ended it."""
        code = self._popen.poll()
        if code is not None:
            reaper.forget_process(self.pid)
        return code

    @property
    def running(self):
        return self.exit_code is None

    def check_running(self):
        if not self.running:
            raise RuntimeError(f"{self.command[0]} ended with exit code {self.exit_code}; its log "
                               f"ends with:\n{self.log_tail()}")

    def signal(self, number):
        if self.running:
            self._popen.send_signal(number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, deadline_s):
        """The exit code, once it has ended."""
        try:
            self._popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.command[0]} (pid {self.pid}) still runs after {deadline_s} s; "
                               f"its log ends with:\n{self.log_tail()}") from None
        return self.exit_code

    def kill(self):
        """SIGKILL, to its children too: they get no chance to notice and tidy up."""
        children = self.children()
        self.signal(signal.SIGKILL)
        for pid, started in children.items():
            if reaper.start_time(pid) == started:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        return self.wait(10)

    def children(self):
        """pid to start time of its direct children."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return {}
        return {int(pid): reaper.start_time(int(pid)) for pid in text.split()}

    def log_text(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines=25):
        return "\n".join(self.log_text().splitlines()[-lines:])
