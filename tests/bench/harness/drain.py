"""Who drains the same backlog, and what each drain cost."""

import subprocess
import threading
import time
from dataclasses import dataclass

from . import relay
from .outbox import TOPICS
from .programs import CpuMeter, cpu_seconds, run_json, started, wait_until


@dataclass(frozen=True)
class Drain:
    """From the start of the process to the last event, unless a name says otherwise."""

    events_per_s: float
    cpu_us: float
    postgres_cpu_us: float | None = None
    broker_cpu_us: float | None = None
    rss_mb: float | None = None
    streaming_ms: float | None = None
    first_event_ms: float | None = None


class WalsenderMeter:
    """Finds the walsender of a slot as soon as it is there and follows its CPU time to its end."""

    def __init__(self, outbox, slot):
        self._stop = threading.Event()
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._follow, args=(outbox, slot), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(10)

    @property
    def seconds(self):
        return self._seconds

    def _follow(self, outbox, slot):
        pid = None
        while pid is None and not self._stop.wait(0.05):
            pid = outbox.walsender_pid(slot)
        while not self._stop.wait(0.02):
            self._seconds = max(self._seconds, cpu_seconds(pid))


class Competitors:
    """Each method drains one slot that was made before the load."""

    def __init__(self, programs, outbox, directory, free_port, options):
        self._programs = programs
        self._outbox = outbox
        self._directory = directory
        self._free_port = free_port
        self._options = options

    def relay(self, slot, events, binary, sink, broker_pid=None, guarantee="at_least_once"):
        port = self._free_port()
        text = relay.config(self._outbox, slot, sink, port, guarantee)
        broker = CpuMeter(broker_pid)
        with WalsenderMeter(self._outbox, slot) as walsender, \
                relay.RunningRelay(binary, self._directory / f"{slot}.yaml", text, port) as running:
            cpu = running.cpu_meter_from_start()
            streaming_s = running.wait_streaming()
            # A scrape costs the relay about a millisecond: few of them until the end is near.
            first_s = running.wait_delivered(1, 60, poll_s=0.01)
            running.wait_delivered(events * 0.9, self._options.timeout, poll_s=0.25)
            total_s = running.wait_delivered(events, self._options.timeout, poll_s=0.05)
            return Drain(events / total_s, cpu.seconds / events * 1e6,
                         walsender.seconds / events * 1e6,
                         broker.seconds / events * 1e6 if broker_pid else None,
                         running.peak_rss_mb(), streaming_s * 1e3, first_s * 1e3)

    def pg_recvlogical(self, slot, events, end_lsn):
        postgres = self._outbox.postgres
        command = [postgres.installation.client("pg_recvlogical"), "-d", self._outbox.conninfo,
                   "--slot", slot, "--start", "-o", "proto_version=1",
                   "-o", "publication_names=outbox", "-f", "/dev/null", "-F", "0", "-s", "1",
                   "--no-loop", "--endpos", end_lsn]
        began = time.monotonic()
        with WalsenderMeter(self._outbox, slot) as walsender, \
                started(command, stderr=subprocess.PIPE) as process:
            cpu = CpuMeter(process.pid, from_its_start=True)

            def ended():
                cpu.sample()
                return process.poll() is not None

            wait_until(ended, self._options.timeout, "pg_recvlogical ends")
            total_s = time.monotonic() - began
            if process.returncode != 0:
                raise RuntimeError(f"pg_recvlogical: {process.stderr.read()}")
            return Drain(events / total_s, cpu.seconds / events * 1e6,
                         walsender.seconds / events * 1e6)

    def bulk_reader(self, slot, events):
        with WalsenderMeter(self._outbox, slot) as walsender:
            line = run_json([self._programs.bench("bulk_reader"), "--conninfo", self._outbox.conninfo,
                             "--slot", slot, "--events", events, "--bulk-wait-us",
                             self._options.bulk_wait_us, "--timeout-s", self._options.timeout],
                            self._options.timeout + 10)
            return self._of_program(line, walsender.seconds)

    def bare_producer(self, events, bootstrap, broker_pid):
        broker = CpuMeter(broker_pid)
        line = run_json([self._programs.bench("bare_producer"), "--brokers", bootstrap, "--topics",
                         ",".join(TOPICS), "--events", events, "--bytes", self._options.bytes,
                         "--queue-messages", self._options.queue_messages, "--linger-ms",
                         self._options.linger_ms, "--timeout-s", self._options.timeout],
                        self._options.timeout + 10)
        return self._of_program(line, broker_cpu_s=broker.seconds)

    @staticmethod
    def _of_program(line, walsender_s=None, broker_cpu_s=None):
        def per_event(seconds):
            return None if seconds is None else seconds / line["events"] * 1e6

        streaming_s = line.get("start_to_streaming_seconds")
        return Drain(line["events"] / line["total_seconds"],
                     per_event(line["cpu_user_seconds"] + line["cpu_system_seconds"]),
                     per_event(walsender_s), per_event(broker_cpu_s), line["max_rss_kib"] / 1024,
                     None if streaming_s is None else streaming_s * 1e3,
                     line["start_to_first_seconds"] * 1e3)
