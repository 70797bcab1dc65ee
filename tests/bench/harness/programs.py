"""Running the bench programs and reading what processes cost, bounded in time."""

import json
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Programs:
    """Finds the binaries of one build directory."""

    def __init__(self, build):
        self.build = Path(build)

    def bench(self, name):
        return self._required(f"bench_{name}")

    def relay(self):
        return self._required("outbox-relay")

    def null_relay(self):
        """The relay with a sink that acknowledges at once, or None where it is not built."""
        return self._found("outbox-relay-null")

    def _required(self, name):
        path = self._found(name)
        if path is None:
            raise FileNotFoundError(f"{name} is not in {self.build}: cmake -B {self.build} "
                                    f"-DCMAKE_BUILD_TYPE=Release -DOUTBOX_BENCH=ON && "
                                    f"cmake --build {self.build}")
        return path

    def _found(self, name):
        for directory in ("", "bin", "cdc", "tests/bench"):
            path = self.build / directory / name
            if path.is_file():
                return path
        return None


def run_json(command, timeout_s):
    """Runs it to its end; the one line of JSON that it prints."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def started(command, **popen):
    """A running process that is ended, and waited for, when the block is left."""
    process = subprocess.Popen([str(part) for part in command], text=True, **popen)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(25)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def cpu_seconds(pid):
    """What all its threads used so far, in ticks of 10 ms; 0 once the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def peak_rss_mb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


class CpuMeter:
    """CPU seconds of another process since now, or since its own start.

    Call `sample()` now and then while a process that may end is still there. Without a pid it
    measures nothing.
    """

    def __init__(self, pid, from_its_start=False):
        self._pid = pid
        self._first = 0.0 if from_its_start or not pid else cpu_seconds(pid)
        self._last = self._first

    def sample(self):
        if self._pid:
            self._last = max(self._last, cpu_seconds(self._pid))

    @property
    def seconds(self):
        self.sample()
        return self._last - self._first


def wait_until(ready, timeout_s, what, poll_s=0.005):
    deadline = time.monotonic() + timeout_s
    while not (result := ready()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        time.sleep(poll_s)
    return result
