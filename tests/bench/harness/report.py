"""What was measured, as Markdown: the machine, the drains, the latencies, the targets."""

import re
import statistics
from dataclasses import fields
from pathlib import Path

from .drain import Drain

COLUMNS = {
    "events_per_s": ("events/s", "{:,.0f}"), "cpu_us": ("CPU µs/event", "{:.2f}"),
    "postgres_cpu_us": ("walsender µs", "{:.1f}"), "broker_cpu_us": ("broker µs", "{:.1f}"),
    "rss_mb": ("peak RSS MB", "{:.1f}"), "streaming_ms": ("start → streaming ms", "{:.0f}"),
    "first_event_ms": ("start → first event ms", "{:.0f}"),
}


def median(drains):
    """Each figure by itself; a figure that was not taken stays None."""
    def of(name):
        values = [value for drain in drains if (value := getattr(drain, name)) is not None]
        return statistics.median(values) if values else None

    return Drain(**{field.name: of(field.name) for field in fields(Drain)})


def markdown(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def drain_table(medians):
    def cells(drain):
        for name, (_, pattern) in COLUMNS.items():
            value = getattr(drain, name)
            yield "–" if value is None else pattern.format(value)

    return markdown(["", *(title for title, _ in COLUMNS.values())],
                    [[name, *cells(drain)] for name, drain in medians.items()])


def latency_table(rows):
    """`rows`: (load, who, Latency)."""
    return markdown(["load", "ms, from … to the consumer", "p50", "p95", "p99", "max"], [
        [load, who + (f" ({found.missing} missing)" if found.missing else ""),
         *(f"{value:.2f}" for value in (found.p50, found.p95, found.p99, found.max))]
        for load, who, found in rows])


def targets_table(rows):
    """`rows`: (what, measured or None, target, whether it is reached)."""
    return markdown(["target", "measured", "wanted", ""], [
        [what, measured, wanted, "reached" if reached else "missed"]
        for what, measured, wanted, reached in rows])


def drain_targets(kind, medians):
    """The issue's targets, for whichever competitors took part."""
    yardstick, reader = medians.get("pg_recvlogical"), medians.get("bulk reader")
    for broker, wanted in (("mock broker", 1.1), ("Kafka", 1.0)):
        ours, floor = medians.get(f"relay → {broker}"), medians.get(f"bare producer → {broker}")
        if ours is None:
            continue
        if yardstick is not None:
            ratio = ours.events_per_s / yardstick.events_per_s
            yield (f"{kind}: drain into {broker} / pg_recvlogical", f"{ratio:.2f}",
                   f"≥ {wanted}", ratio >= wanted)
        if reader is not None and floor is not None:
            ratio = ours.cpu_us / (reader.cpu_us + floor.cpu_us)
            yield (f"{kind}: CPU into {broker} / (bulk reader + bare producer)", f"{ratio:.2f}",
                   "≤ 1.25", ratio <= 1.25)
        yield (f"{kind}: peak RSS into {broker}", f"{ours.rss_mb:.1f} MB", "≤ 48 MB", ours.rss_mb <= 48)
        yield (f"{kind}: start to streaming, {broker}", f"{ours.streaming_ms:.0f} ms", "≤ 200 ms",
               ours.streaming_ms <= 200)


def latency_targets(load, relay, bare):
    ratio = relay.p50 / bare.p50
    yield f"{load}: p50 / bare producer's p50", f"{ratio:.2f}", "≤ 2.5", ratio <= 2.5
    if load == "1,000/s":
        yield f"{load}: p99", f"{relay.p99:.2f} ms", "≤ 10 ms", relay.p99 <= 10


def machine(postgres_version, kafka_version):
    import confluent_kafka  # Loads the same librdkafka that the programs are linked with.

    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory_kb = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    cores = len(re.findall(r"^processor\s*:", Path("/proc/cpuinfo").read_text(), re.M))
    load = Path("/proc/loadavg").read_text().split()[0]
    return (f"{cores} cores ({cpu.group(1) if cpu else 'unknown CPU'}), "
            f"{int(memory_kb.group(1)) / 2**20:.0f} GiB, load {load} before it began; "
            f"PostgreSQL {postgres_version}, librdkafka {confluent_kafka.libversion()[0]}, "
            f"Kafka {kafka_version}")
