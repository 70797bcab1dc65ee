"""One run of the relay, watched through its own metrics endpoint."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.request

from .programs import CpuMeter, peak_rss_mb, started, wait_until

DELIVERED = re.compile(r'^outbox_relay_events_total\{[^}]*outcome="delivered"[^}]*\} (\S+)', re.M)
CONNECTED = re.compile(r"^outbox_relay_source_connected(?:\{[^}]*\})? 1(?:\.0*)?$", re.M)


def config(outbox, slot, sink, http_port, guarantee="at_least_once"):
    """JSON is YAML, too."""
    return json.dumps({
        "version": 1,
        "source": {
            "host": outbox.host, "port": outbox.postgres.port, "database": "postgres",
            "user": "postgres", "publication": {"name": "outbox"}, "slot": {"name": slot},
        },
        "outbox": [{"table": {"schema": "public", "name": "outbox_events"}}],
        "sink": sink,
        "delivery": {"guarantee": guarantee},
        "http": {"listen": f"127.0.0.1:{http_port}"},
        "log": {"level": "warn"},
    }, indent=1)


def kafka_sink(bootstrap, properties):
    kafka = {"brokers": bootstrap.split(",")}
    if properties:
        kafka["properties"] = properties
    return {"kafka": kafka}


class RunningRelay:
    """A context manager; `config_path` is written, the process started and, at the end, stopped."""

    def __init__(self, binary, config_path, text, http_port):
        config_path.write_text(text)
        if json.loads(text)["delivery"]["guarantee"] == "exactly_once":  # init writes the first checkpoint.
            subprocess.run([binary, "init", "--config", config_path], check=True, stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=60)
        self._url = f"http://127.0.0.1:{http_port}/metrics"
        self._started_at = None
        self._log = open(config_path.with_suffix(".log"), "w+")
        self._running = started([binary, "run", "--config", config_path],
                                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)

    def __enter__(self):
        self._started_at = time.monotonic()
        self._process = self._running.__enter__()
        return self

    def __exit__(self, *problem):
        self._running.__exit__(*problem)
        self._log.close()

    @property
    def pid(self):
        return self._process.pid

    @property
    def age_s(self):
        return time.monotonic() - self._started_at

    def wait_streaming(self):
        """Seconds from the start of the process."""
        wait_until(lambda: CONNECTED.search(self._metrics()), 30, "the relay streams", poll_s=0.002)
        return self.age_s

    def wait_delivered(self, events, timeout_s, poll_s, meanwhile=lambda: None):
        def enough():
            meanwhile()
            return self.delivered() >= events

        wait_until(enough, timeout_s, f"{events} events delivered", poll_s)
        return self.age_s

    def delivered(self):
        found = DELIVERED.search(self._metrics())
        return float(found.group(1)) if found else 0.0

    def cpu_meter_from_start(self):
        return CpuMeter(self.pid, from_its_start=True)

    def peak_rss_mb(self):
        return peak_rss_mb(self.pid)

    def _metrics(self):
        if self._process.poll() is not None:
            self._log.seek(0)
            raise RuntimeError(f"the relay ended with {self._process.returncode}: "
                               f"{self._log.read()[-2000:]}")
        try:
            with urllib.request.urlopen(self._url, timeout=5) as response:
                return response.read().decode()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return ""  # Not listening yet.
