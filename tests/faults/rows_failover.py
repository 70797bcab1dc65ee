"""Rows 45 to 48: the primary dies and a standby takes its place, with and without what protects a slot from that."""

import threading
from contextlib import contextmanager

from faults.checker import check
from faults.scenario import AT_LEAST_ONCE, EXACTLY_ONCE, scenario
from support.outbox import event_id
from support.postgres import Postgres
from support.relay import run_command
from support.steadfast_writer import SteadfastWriter
from support.wait import eventually

READ_WRITE = {"target_session_attrs": "read-write", "connect_timeout": "3"}


@contextmanager
def primary_and_standby(version, failover_slots=True, protected=True, **settings):
    """The standby follows by a physical slot; with `failover_slots` it copies logical ones, 17 and later.

    `protected`: the primary sends nothing to a failover slot that the standby does not have.
    """
    with Postgres(version, settings={"hot_standby_feedback": "on", **settings}) as primary:
        primary.sql("SELECT pg_create_physical_replication_slot('standby')")
        primary.stop()
        copy = primary.copy_data()
        primary.start()
        if protected and failover_slots:
            primary.set(synchronized_standby_slots="standby")
        with Postgres(version, data_from=copy, standby_of=primary,
                      settings={"hot_standby_feedback": "on", "primary_slot_name": "standby",
                                **({"sync_replication_slots": "on"} if failover_slots else {}), **settings}) as standby:
            # A slot that was copied with the data would be one of the standby's own.
            standby.set(primary_conninfo=f"{standby.settings['primary_conninfo']} dbname=postgres")
            standby.sql("SELECT pg_drop_replication_slot('standby') FROM pg_replication_slots WHERE slot_name = 'standby'")
            eventually(lambda: primary.value("SELECT active FROM pg_replication_slots WHERE slot_name = 'standby'"), 30,
                       "the standby streams")
            yield primary, standby


def of_both(primary, standby):
    """The changes to a config that name both servers, of which the relay is to find the primary."""
    return {"source__host": f"{primary.host},{standby.host}", "source__port": f"{primary.port},{standby.port}",
            "source__libpq": dict(READ_WRITE)}


def failover_outbox(world, primary, mode=AT_LEAST_ONCE):
    """With a slot that standbys copy."""
    outbox = world.outbox(primary, partitions=3, slot=False, mode=mode)
    outbox.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false, false, true)", [outbox.name])
    return outbox


def wait_synced(outbox, standby):
    eventually(lambda: (slot := standby.slot(outbox.name)) and slot["synced"] and not slot["temporary"], 60,
               "the slot is on the standby")


def let_load_run(relay, seconds):
    """A stretch of load, measured by what the relay delivers."""
    delivered = relay.metric("outbox_relay_events_total", outcome="delivered")
    threading.Event().wait(seconds)
    relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") > delivered, 30, "load flows")


def new_primary_under_load(world, version, mode=AT_LEAST_ONCE, planned=False):
    """`planned`: the primary is stopped, else killed. The standby takes its place."""
    with primary_and_standby(version) as (primary, standby):
        outbox = failover_outbox(world, primary, mode)
        both = of_both(primary, standby)
        if mode == EXACTLY_ONCE:
            code, _, stderr = run_command(["init"], outbox.changed_config(**both))
            assert code == 0, stderr
        with outbox.relay(**both) as relay:
            relay.wait_streaming()
            wait_synced(outbox, standby)
            with SteadfastWriter(outbox, world.seed, rows_per_second=300) as writer:
                let_load_run(relay, 2)
                primary.stop() if planned else primary.kill()
                standby.promote()
                outbox.pg = standby
                relay.wait_for(lambda: relay.metric("outbox_relay_source_connected") == 1, 30, "it goes on")
                let_load_run(relay, 1)
            outbox.wait_confirmed(relay, 60)
            assert relay.terminate() == 0, relay.stderr()
            kept = set(outbox.ids())
            # Commits that the primary answered and the standby never got are lost by PostgreSQL (asynchronous),
            # and must not have been published: that is what synchronized_standby_slots is for.
            lost_by_failover = [event for event in writer.committed if event.id not in kept]
            writer.committed = [event for event in writer.committed if event.id in kept]
            writer.rolled_back += lost_by_failover
            writer.unknown = [event for event in writer.unknown if event.id in kept]
        records = outbox.in_kafka(deadline_s=90)
        text = check(writer, records, duplicates=0 if mode == EXACTLY_ONCE else None).assert_kept()
        assert {event_id(record) for record in records} == kept
        return f"{version}: {len(lost_by_failover)} lost with the old primary, none published; {text}"


@scenario(row=45, title="the primary is killed under load and the standby promoted; its slot is synchronised")
def failover_with_synchronised_slot(world):
    return "; ".join(new_primary_under_load(world, version) for version in (17, 18))


@scenario(row=45, title="the same, each event exactly once", mode=EXACTLY_ONCE)
def failover_exactly_once(world):
    return new_primary_under_load(world, 18, EXACTLY_ONCE)


@scenario(row=45, title="a planned switchover, each event exactly once", mode=EXACTLY_ONCE)
def switchover_exactly_once(world):
    return new_primary_under_load(world, 17, EXACTLY_ONCE, planned=True)


@scenario(row=46, title="the same without synchronized_standby_slots and a standby that lags: ghosts, warned of before")
def failover_without_protection(world):
    with primary_and_standby(18, protected=False) as (primary, standby):
        outbox = failover_outbox(world, primary)
        both = of_both(primary, standby)
        warning = run_command(["check", "--connect"], outbox.changed_config(**both))
        with outbox.relay(**both) as relay:
            relay.wait_streaming()
            kept = outbox.insert("key-1")
            wait_synced(outbox, standby)
            standby.set(primary_conninfo="")  # It falls behind.
            eventually(lambda: standby.value("SELECT count(*) FROM pg_stat_wal_receiver") == 0, 30, "it has let go")
            ghosts = outbox.insert("key-1", "key-2")
            outbox.wait_confirmed(relay)
            assert set(ghosts) <= set(outbox.ids_in_kafka()), "published before the standby has them"
            primary.kill()
            standby.promote()
            outbox.pg = standby
            # Below what the relay had read of the old history: its watermark must not pass over these.
            after = outbox.insert("key-1", "key-2", "key-3")
            outbox.wait_confirmed(relay, 60)
            arrived = outbox.ids_in_kafka()
            assert set(kept + after) <= set(arrived), relay.stderr()
            gone = set(ghosts) - set(outbox.ids())
            assert relay.terminate() == 0
        assert set(arrived) - set(outbox.ids()) == gone
    assert gone, "the lag made ghosts"
    assert "synchronized_standby_slots" in warning[1] + warning[2], f"no warning before: {warning[1]}{warning[2]}"
    return f"{len(gone)} ghosts as documented, warned of before; nothing of the new primary passed over"


@scenario(row=47, title="decoding on a standby that is promoted under the stream, PostgreSQL 16 and later")
def standby_is_promoted_under_the_stream(world):
    found = []
    for version in (16, 18):
        with primary_and_standby(version, failover_slots=False) as (primary, standby):
            outbox = world.outbox(primary, partitions=3, slot=False)
            eventually(lambda: standby.value("SELECT count(*) FROM pg_publication", db=outbox.name) == 1
                       if standby.value("SELECT count(*) FROM pg_database WHERE datname = %s", [outbox.name]) else False,
                       30, "the standby has the publication")
            made = threading.Thread(target=lambda: standby.sql(
                "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [outbox.name], db=outbox.name))
            made.start()
            # A slot on a standby waits for such a record of the primary.
            eventually(lambda: primary.sql("SELECT pg_log_standby_snapshot()") and not made.is_alive(), 60,
                       "the slot is made", poll_s=0.3)
            made.join()
            on_standby = {"source__host": str(standby.socket_dir), "source__port": standby.port}
            with outbox.relay(**on_standby) as relay:
                relay.wait_streaming()
                with SteadfastWriter(outbox, world.seed) as writer:
                    let_load_run(relay, 1)
                # A clean switchover: the old primary has sent everything before it is gone.
                end = primary.value("SELECT pg_current_wal_flush_lsn()")
                eventually(lambda: standby.value("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [end]), 30, "replayed")
                primary.kill()
                standby.promote()
                outbox.pg = standby
                with SteadfastWriter(outbox, world.seed + 1) as second:
                    relay.wait_for(lambda: relay.metric("outbox_relay_up_state", state="streaming") == 1, 30, "streams")
                    let_load_run(relay, 1)
                outbox.wait_confirmed(relay, 60)
                assert relay.terminate() == 0, relay.stderr()
            expected = {event.id for event in [*writer.committed, *second.committed]}
            ids = [event_id(record) for record in outbox.in_kafka()]
            assert set(ids) == expected == set(outbox.ids())
            found.append(f"{version}: {len(expected)} events, {len(ids) - len(expected)} repeats")
    return "; ".join(found)


@scenario(row=48, title="the primary changes its place behind a list of hosts, again and again")
def primary_changes_its_place(world):
    with primary_and_standby(18) as (primary, standby):
        outbox = failover_outbox(world, primary)
        eventually(lambda: standby.value("SELECT count(*) FROM pg_database WHERE datname = %s", [outbox.name]), 30,
                   "the standby has the database")
        # The standby first, so that the primary has to be looked for.
        with outbox.relay(**of_both(standby, primary)) as relay:
            relay.wait_streaming()
            assert primary.walsender_pid(outbox.name) is not None
            wait_synced(outbox, standby)
            with SteadfastWriter(outbox, world.seed) as writer:
                let_load_run(relay, 1)
            outbox.wait_confirmed(relay)
            wanted = {event.id for event in writer.committed}
            end = primary.value("SELECT pg_current_wal_flush_lsn()")
            eventually(lambda: standby.value("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [end]), 30, "replayed")
            confirmed = primary.slot(outbox.name)["confirmed_flush_lsn"]
            eventually(lambda: standby.slot(outbox.name)["confirmed_flush_lsn"] >= confirmed, 60, "the slot is in step")
            primary.stop()
            standby.promote()
            outbox.pg = standby
            with SteadfastWriter(outbox, world.seed + 1) as second:
                relay.wait_for(lambda: standby.walsender_pid(outbox.name) is not None, 30, "it has found the new primary")
                let_load_run(relay, 1)
            outbox.wait_confirmed(relay, 60)
            assert relay.terminate() == 0
        wanted |= {event.id for event in second.committed}
        ids = [event_id(record) for record in outbox.in_kafka()]
        assert set(ids) == wanted == set(outbox.ids()), relay.stderr()
    return f"{len(wanted)} events, {len(ids) - len(wanted)} repeats"
