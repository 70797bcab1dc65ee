"""From the commit of an event to its arrival at a consumer, beside a bare producer's latency."""

import json
import subprocess
from dataclasses import dataclass

from . import relay
from .outbox import TOPICS
from .programs import run_json, started


@dataclass(frozen=True)
class Latency:
    p50: float
    p95: float
    p99: float
    max: float
    missing: int

    @staticmethod
    def of_ms(latencies, wanted):
        ordered = sorted(latencies)

        def percentile(percent):
            return ordered[(len(ordered) - 1) * percent // 100] if ordered else float("nan")

        return Latency(percentile(50), percentile(95), percentile(99), percentile(100),
                       wanted - len(ordered))


@dataclass(frozen=True)
class Load:
    name: str
    rate: float
    seconds: float
    connections: int  # One cannot commit 5,000 times a second.

    @property
    def events(self):
        return int(self.rate * self.seconds)


def loads(seconds):
    return [Load("one every 500 ms", 2, 2 * seconds, 1), Load("100/s", 100, seconds, 1),
            Load("1,000/s", 1000, seconds, 1), Load("5,000/s", 5000, seconds, 4)]


class LatencyMeter:
    def __init__(self, programs, outbox, bootstrap, directory, free_port, options):
        self._programs = programs
        self._outbox = outbox
        self._bootstrap = bootstrap
        self._directory = directory
        self._free_port = free_port
        self._options = options

    def bare_producer(self, load):
        """From just before produce()."""
        received = self._received_during(load, lambda: self._produce(load))
        return Latency.of_ms([(at - sent) / 1e6 for sent, at in received.values()], load.events)

    def relay(self, load, binary, sink, slot, guarantee="at_least_once"):
        """Two of them: from the moment COMMIT had returned, and from just before the INSERT left."""
        self._outbox.create_slots([slot])
        port = self._free_port()
        text = relay.config(self._outbox, slot, sink, port, guarantee)
        with relay.RunningRelay(binary, self._directory / f"{slot}.yaml", text, port) as running:
            running.wait_streaming()
            received = self._received_during(load, lambda: self._write(load))
        after = self._written()
        return (Latency.of_ms([(at - after[n]) / 1e6 for n, (_, at) in received.items()], load.events),
                Latency.of_ms([(at - sent) / 1e6 for sent, at in received.values()], load.events))

    def _produce(self, load):
        run_json([self._programs.bench("bare_producer"), "--brokers", self._bootstrap, "--topics",
                  ",".join(TOPICS), "--events", load.events, "--rate", load.rate, "--linger-ms", 0,
                  "--bytes", self._options.bytes, "--timeout-s", load.seconds + 30],
                 load.seconds + 40)

    def _write(self, load):
        run_json([self._programs.bench("latency_writer"), "--conninfo", self._outbox.conninfo,
                  "--events", load.events, "--rate", load.rate, "--connections", load.connections,
                  "--synchronous-commit", self._options.synchronous_commit, "--bytes",
                  self._options.bytes, "--out", self._directory / "written", "--timeout-s",
                  int(load.seconds) + 30], load.seconds + 40)

    def _written(self):
        """Number of each event to the moment after its COMMIT."""
        lines = (self._directory / "written").read_text().splitlines()
        return {int(n): int(after) for n, _, after in map(str.split, lines)}

    def _received_during(self, load, produce):
        """Number of each event to its moment of sending and of arrival, first arrival only."""
        out = self._directory / "received"
        command = [self._programs.bench("latency_consumer"), "--brokers", self._bootstrap,
                   "--topics", ",".join(TOPICS), "--events", load.events, "--out", out,
                   "--timeout-s", int(load.seconds) + 30]
        with started(command, stdout=subprocess.PIPE) as consumer:
            if consumer.stdout.readline().strip() != "ready":
                raise RuntimeError("the consumer did not start")
            produce()
            json.loads(consumer.stdout.readline())  # Bounded by the consumer's own time limit.
        received = {}
        for number, sent, at in map(str.split, out.read_text().splitlines()):
            received.setdefault(int(number), (int(sent), int(at)))
        return received
