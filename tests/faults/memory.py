"""I6: resident memory, sampled while a scenario runs."""

import threading

from .checker import Finding


class Memory:
    """A context manager; `peak_mb` afterwards."""

    def __init__(self, pid):
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak_mb = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.05):
            try:
                with open(f"/proc/{self._pid}/status") as status:
                    for line in status:
                        if line.startswith("VmRSS:"):
                            self.peak_mb = max(self.peak_mb, int(line.split()[1]) / 1024)
            except (FileNotFoundError, ProcessLookupError):
                return

    def finding(self, most_mb):
        return Finding("I6", self.peak_mb <= most_mb, f"peak {self.peak_mb:.0f} MB of at most {most_mb:.0f}")
