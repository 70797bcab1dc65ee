"""The relay as a process: its config, its endpoint, its end; and its one-shot commands.

    with RelayProcess(relay_config(pg, "shop", kafka)) as relay:
        relay.wait_streaming()
        ...
        assert relay.terminate() == 0
"""

import copy
import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from .ports import free_port
from .process import Process, make_directory, remove_directory
from .wait import eventually

_SANITIZER_REPORT = re.compile(r"ERROR: \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer")
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def relay_binary():
    """From the environment: OUTBOX_RELAY_BINARY."""
    path = os.environ.get("OUTBOX_RELAY_BINARY")
    if not path or not os.access(path, os.X_OK):
        raise FileNotFoundError(f"OUTBOX_RELAY_BINARY is {path!r}: set it to the built outbox-relay, "
                                "as ctest does")
    return Path(path).resolve()


def relay_config(postgres, database, kafka=None, user="postgres", name="outbox", table=None, tcp=False):
    """A config, as a dict to change, for one outbox; without Kafka its sink is stdout.

    `name` is that of both the publication and the slot.
    """
    return {
        "version": 1,
        "source": {
            "host": postgres.host if tcp else str(postgres.socket_dir),
            "port": postgres.port,
            "database": database,
            "user": user,
            "publication": {"name": name},
            "slot": {"name": name},
        },
        "outbox": [{"table": table or {"schema": "public", "name": "outbox_events"}}],
        "sink": {"kafka": {"brokers": kafka.bootstrap.split(",")}} if kafka else {"stdout": {}},
    }


def run_command(arguments, config=None, binary=None, deadline_s=60, environment=None):
    """`outbox-relay ARGUMENTS [--config FILE]` to its end: (exit code, stdout, stderr).

    `config` is a dict or the text of the file.
    """
    directory = make_directory("command")
    try:
        command = [str(binary or relay_binary()), *map(str, arguments)]
        if config is not None:
            command += ["--config", str(_write_config(directory / "relay.yaml", config))]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=deadline_s, env={**os.environ, **(environment or {})})
        # Values may hold anything: what is not UTF-8 comes back unchanged with errors="surrogateescape".
        return (done.returncode, done.stdout.decode(errors="surrogateescape"),
                done.stderr.decode(errors="surrogateescape"))
    finally:
        remove_directory(directory)


class RelayProcess:
    """`outbox-relay run`, started when created. Leaving `with` ends it and fails on a sanitizer report.

    `config` is a dict, which gets an `http.listen` on a free port unless it has one, or the text
    of a file, for which `http_port` says where its endpoint is.
    """

    def __init__(self, config, binary=None, http_port=None, environment=None, log_path=None):
        self.directory = make_directory("relay")
        self.binary = binary or relay_binary()
        self.environment = {**os.environ, **(environment or {})}
        self.config_path = self.directory / "relay.yaml"
        self.log_path = Path(log_path) if log_path else self.directory / "stderr"
        self.stdout_path = self.directory / "stdout"
        self.http_port = http_port
        if isinstance(config, dict):
            config = copy.deepcopy(config)
            listen = config.setdefault("http", {}).setdefault("listen", f"127.0.0.1:{free_port()}")
            self.http_port = int(listen.rpartition(":")[2])
        _write_config(self.config_path, config)
        self.arguments = []  # Of `run`, from the next start on.
        self._process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            self.check_sanitizers()

    def start(self):
        """Again, with the same config, after it has ended."""
        self._process = Process([self.binary, "run", "--config", self.config_path, *self.arguments], self.log_path,
                                env=self.environment, stdout_path=self.stdout_path)
        return self

    # Ending

    @property
    def pid(self):
        return self._process.pid

    @property
    def running(self):
        return self._process.running

    @property
    def exit_code(self):
        """None while it runs, negative when a signal ended it."""
        return self._process.exit_code

    def wait_exit(self, deadline_s=30):
        return self._process.wait(deadline_s)

    def terminate(self, deadline_s=30):
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit(deadline_s)

    def kill9(self):
        self._process.kill()

    def signal(self, number):
        self._process.signal(number)

    def pause(self):
        self._process.pause()

    def resume(self):
        self._process.resume()

    def close(self):
        if self.running:
            self.resume()
            self.kill9()
        self._report = self.stderr()
        remove_directory(self.directory)

    def check_sanitizers(self):
        report = self.stderr()
        if _SANITIZER_REPORT.search(report):
            raise AssertionError(f"a sanitizer reported:\n{report}")

    # What it says

    def stderr(self):
        return self._process.log_text() if self.log_path.exists() else getattr(self, "_report", "")

    def stdout_lines(self):
        """What the stdout sink wrote: one dict per whole line."""
        text = self.stdout_path.read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def get(self, path, timeout_s=5):
        """(status, text) of its HTTP endpoint; ConnectionError when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}",
                                        timeout=timeout_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except OSError as problem:
            raise ConnectionError(f"{path} on port {self.http_port}: {problem}") from problem

    def ready(self):
        return self.get("/readyz")

    def live(self):
        return self.get("/livez")

    def metrics(self):
        """Sample to value, such as {'outbox_relay_up_state{state="streaming"}': 1.0}; labels sorted."""
        status, text = self.get("/metrics")
        assert status == 200, (status, text)
        return parse_metrics(text)

    def metric(self, name, **labels):
        """The sum of the samples of that name with (at least) these labels; None without any."""
        wanted = set(labels.items())
        found = [value for sample, value in self.metrics().items()
                 if _SAMPLE.match(f"{sample} 0")["name"] == name and wanted <= _labels(sample)]
        return sum(found) if found else None

    # Waiting

    def wait_for(self, predicate, deadline_s=30, describe="the relay gets there"):
        """Polls until the predicate of no argument holds; fails at once when the relay ends."""
        return eventually(predicate, deadline_s,
                          lambda: f"{describe}; its stderr ends with:\n{self._process.log_tail()}",
                          unless=self._process.check_running)

    def wait_state(self, state, deadline_s=30):
        self.wait_for(lambda: self.metric("outbox_relay_up_state", state=state) == 1, deadline_s,
                      f"the relay is {state}")
        return self

    def wait_streaming(self, deadline_s=30):
        return self.wait_state("streaming", deadline_s)

    def wait_ready(self, deadline_s=30):
        self.wait_for(lambda: self.ready()[0] == 200, deadline_s, "the relay is ready")
        return self

    def wait_log(self, pattern, deadline_s=30):
        """Until its stderr matches; the match."""
        return self.wait_for(lambda: re.search(pattern, self.stderr()), deadline_s,
                             f"stderr has {pattern!r}")


def parse_metrics(text):
    """The samples of the Prometheus text format, keyed by name and sorted labels."""
    samples = {}
    for line in text.splitlines():
        sample = None if line.startswith("#") else _SAMPLE.match(line)
        if sample:
            labels = ",".join(f'{n}="{v}"' for n, v in sorted(_LABEL.findall(sample["labels"] or "")))
            samples[sample["name"] + (f"{{{labels}}}" if labels else "")] = float(sample["value"])
    return samples


def _labels(sample):
    return set(_LABEL.findall(sample))


def _write_config(path, config):
    # JSON is YAML.
    path.write_text(config if isinstance(config, str) else json.dumps(config, indent=2) + "\n")
    return path
