"""Ends the servers and removes the directories that a killed test process leaves behind.

A small process of its own reads from a pipe what to look after. The pipe closes when the test
process ends, however it ends, even by SIGKILL; what is still registered then is killed and removed.
It touches nothing that was not registered, and a process only if it is the same one as then.
"""

import os
import shutil
import signal
import sys
import time

_pipe = None


def look_after_process(pid):
    _tell(f"+process {pid} {start_time(pid)}")


def forget_process(pid):
    _tell(f"-process {pid}")


def look_after_directory(path):
    _tell(f"+directory {path}")


def forget_directory(path):
    _tell(f"-directory {path}")


def start_time(pid):
    """In clock ticks since boot, which with the pid names one process; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _tell(line):
    global _pipe
    if _pipe is None:
        _pipe = _start_reaper()
    os.write(_pipe, (line + "\n").encode())


def _start_reaper():
    """Forks twice: a timeout that kills this process with its children must not reach the reaper."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        os.set_inheritable(read_end, True)
        os.closerange(write_end, write_end + 1)
        os.execv("/usr/bin/python3", ["/usr/bin/python3", __file__, str(read_end)])
    os.waitpid(child, 0)
    os.close(read_end)
    return write_end


def _serve(read_end):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # A caller that waits for our streams to close must not wait for us.
        os.dup2(null, stream)
    os.chdir("/")
    processes, directories = {}, set()
    with os.fdopen(read_end) as lines:
        for line in lines:
            verb, _, rest = line.rstrip("\n").partition(" ")
            if verb == "+process":
                pid, started = rest.split()
                processes[int(pid)] = started
            elif verb == "-process":
                processes.pop(int(rest), None)
            elif verb == "+directory":
                directories.add(rest)
            elif verb == "-directory":
                directories.discard(rest)
    left = {pid for pid, started in processes.items() if str(start_time(pid)) == started}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(str(start_time(pid)) == processes[pid] for pid in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
