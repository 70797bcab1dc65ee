"""What the Kafka rows wait for and look at."""

import os
import time
from pathlib import Path

from faults.checker import check


def delivered(relay):
    return relay.metric("outbox_relay_events_total", outcome="delivered")


def wait_progress(relay, events=100, deadline_s=60):
    """Until so many more are acknowledged."""
    start = relay.wait_for(lambda: delivered(relay) is not None and [delivered(relay)], deadline_s, "it answers")[0]
    relay.wait_for(lambda: delivered(relay) >= start + events, deadline_s, f"{events} more events are acknowledged")


def wait_written(relay, writer, events=500):
    """Until services have committed so many more: they notice nothing of what the relay goes through."""
    start = len(writer.committed)
    relay.wait_for(lambda: len(writer.committed) >= start + events, 60, f"{events} more events are committed")


def stop_whole(outbox, relay, writer, failures=0, duplicates=0, deadline_s=60):
    """The end of a scenario, after its writer's: everything arrives, nothing failed on the way; the checker's text."""
    outbox.wait_confirmed(relay, deadline_s)
    failed = relay.metric("outbox_relay_events_failed_total")
    assert failed == failures, f"{failed} events failed; the relay's stderr ends with:\n{relay.stderr()[-3000:]}"
    assert relay.terminate() == 0
    return check(writer, outbox.in_kafka(), duplicates=duplicates).assert_kept()


def wait_halted(relay, outbox, *words, deadline_s=30):
    """Halted, and it says what to do; alive, with the slot free."""
    relay.wait_for(lambda: relay.ready()[0] == 503 and "halted" in relay.ready()[1], deadline_s, "the relay is halted")
    reason = relay.ready()[1]
    for word in words:
        assert word in reason, f"{word!r} is not in {reason!r}"
    relay.wait_for(lambda: not outbox.slot()["active"], 10, "the replication connection is released")
    assert relay.live()[0] == 200


def cpu_share(pid, seconds):
    """Of one processor, over so many seconds."""
    before = _cpu_seconds(pid)
    time.sleep(seconds)  # The span that is measured, not a wait.
    return (_cpu_seconds(pid) - before) / seconds


def _cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
