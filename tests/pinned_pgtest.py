"""What pins WAL besides the relay: a wholly idle cluster (B4), and a transaction that is left open elsewhere (B9)."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import POSTGRES_VERSIONS
from support.outbox import Outbox
from support.postgres import Postgres
from support.relay import run_command
from support.wait import eventually

MEGABYTE = 1 << 20


def retained(outbox):
    return int(outbox.pg.value("SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots"
                               " WHERE slot_name = %s", [outbox.name]))


def write_filler(outbox, megabytes):
    for _ in range(megabytes):
        outbox.sql("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1048576))")


def kept_by_idle_cluster(version):
    """The bytes that a slot still pins well after it has confirmed everything, and the events that came."""
    with Postgres(version, settings={"autovacuum": "off", "bgwriter_delay": "100ms"}) as pg:
        outbox = Outbox(pg, "idle_cluster")
        outbox.insert("1")
        for _ in range(4):
            write_filler(outbox, 5)
            pg.sql("CHECKPOINT")
        last = outbox.insert("2")
        # The last thing that an idle server writes by itself, so that nothing comes later that would help.
        end = outbox.written()
        eventually(lambda: outbox.written() > end, 40, "the background writer has had its say")
        assert retained(outbox) > 20 * MEGABYTE
        with outbox.relay() as relay:
            outbox.wait_on_stdout(relay, last)
            outbox.wait_confirmed(relay)
            try:
                eventually(lambda: retained(outbox) < 4 * MEGABYTE, 40, "freed", poll_s=0.2)
            except TimeoutError:
                pass
            return retained(outbox), len(relay.stdout_lines())


@pytest.fixture(scope="module")
def idle():
    with ThreadPoolExecutor(len(POSTGRES_VERSIONS)) as pool:
        return {version: pool.submit(kept_by_idle_cluster, version) for version in POSTGRES_VERSIONS}


@pytest.mark.parametrize("version", POSTGRES_VERSIONS)
def test_a_cluster_that_has_been_idle_since_before_the_relay_started_frees_its_wal(idle, version):
    """Case B4. What was written while the relay was away had checkpoints in it; then nobody writes any more."""
    kept, events = idle[version].result()
    print(f"PostgreSQL {version}: {kept} bytes kept")
    assert events == 2, "whatever is written to free the WAL, it is no event"
    assert kept < 4 * MEGABYTE


def test_a_transaction_left_open_elsewhere_shows_in_both_metrics_and_by_name(postgres):
    """Case B9: the confirmed position moves on, the restart position cannot."""
    outbox = Outbox(postgres, "pinning")
    outbox.sql("CREATE TABLE other (id int)")
    holder = postgres.connect("pinning", application_name="nightly report")
    with outbox.relay() as relay:
        relay.wait_streaming()
        with holder.cursor() as cursor:
            cursor.execute("INSERT INTO other VALUES (1)")
        postgres.sql("CHECKPOINT")
        write_filler(outbox, 12)
        postgres.sql("CHECKPOINT")
        outbox.wait_on_stdout(relay, outbox.insert("1"))
        outbox.wait_confirmed(relay)
        relay.wait_for(lambda: relay.metric("outbox_relay_slot_retained_bytes") > 10 * MEGABYTE
                       and relay.metric("outbox_relay_source_lag_bytes") < MEGABYTE, 30, "the metrics tell them apart")
        code, out, err = run_command(["status", "--json"], outbox.config)
        blocker = json.loads(out)["slot"]["oldest_transaction"]
        assert code == 0 and blocker["application_name"] == "nightly report", err
        assert blocker["pid"] == holder.info.backend_pid
        holder.rollback()
        holder.close()
        postgres.sql("CHECKPOINT")
        eventually(lambda: retained(outbox) < 4 * MEGABYTE, 60, "the WAL is freed", poll_s=0.2)
