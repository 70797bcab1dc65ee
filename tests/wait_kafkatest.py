"""`wait`, `slot advance` and `run --accept-gap`: what is typed around deploys, upgrades and what cannot be decoded."""

import pytest

from support.outbox import Outbox
from support.relay import run_command
from support.wait import eventually


def command(outbox, *arguments):
    return run_command(arguments, outbox.config)


def test_wait_returns_once_everything_up_to_the_position_is_acknowledged(postgres):
    outbox = Outbox(postgres, "waited")
    events = outbox.insert("a", "b")
    end = postgres.value("SELECT pg_current_wal_lsn()")
    code, _, stderr = command(outbox, "wait", "--timeout", "200ms")
    assert code == 75 and "no relay reads it" in stderr
    with outbox.relay() as relay:
        code, _, stderr = command(outbox, "wait", "--lsn", end, "--timeout", "20s")
        assert code == 0 and "is acknowledged" in stderr
        assert outbox.ids_on_stdout(relay) == events
        assert command(outbox, "wait")[0] == 0, "an idle relay gets to the end of the log"


@pytest.mark.parametrize("arguments", [["--lsn", "nonsense"], ["--timeout", "5"]])
def test_wait_refuses_what_is_no_position_or_time(postgres, arguments, database):
    code, _, stderr = run_command(["wait", *arguments], {"version": 1, "source": {"database": database}, "sink": {"stdout": {}}})
    assert code == 64 and arguments[1] in stderr


def test_advance_names_the_span_and_wants_a_person(postgres):
    outbox = Outbox(postgres, "advanced_typed")
    before = outbox.slot()["confirmed_flush_lsn"]
    lost = outbox.insert("lost")
    past = postgres.value("SELECT pg_current_wal_lsn()")
    code, _, stderr = command(outbox, "slot", "advance", "--past", past)
    assert code == 64 and "not confirmed" in stderr and before in stderr and past in stderr
    assert outbox.slot()["confirmed_flush_lsn"] == before
    code, _, stderr = command(outbox, "slot", "advance", "--past", "FFFF/0", "--yes")
    assert code == 64 and "the server's log ends at" in stderr

    assert command(outbox, "slot", "advance", "--past", past, "--yes")[0] == 0
    code, _, stderr = command(outbox, "slot", "advance", "--past", before, "--yes")
    assert code == 64 and "already" in stderr
    kept = outbox.insert("kept")
    with outbox.relay() as relay:
        outbox.wait_on_stdout(relay, kept)
        assert outbox.ids_on_stdout(relay) == kept and lost
        code, _, stderr = command(outbox, "slot", "advance", "--past", past, "--yes")
        assert code == 69 and "in use by PID" in stderr


def test_a_gap_is_passed_over_only_where_that_is_typed(postgres, kafka):
    outbox = Outbox(postgres, "accepted", kafka)
    outbox.config["delivery"] = {"checkpoint": {"topic": "accepted.checkpoint"}}
    assert command(outbox, "init")[0] == 0
    outbox.insert("lost")
    outbox.sql("SELECT pg_replication_slot_advance('accepted', pg_current_wal_lsn())")
    with outbox.relay() as relay:
        assert relay.wait_exit() == 65 and "--accept-gap" in relay.stderr()
        relay.arguments = ["--accept-gap"]
        relay.start().wait_streaming()
        assert "Accepted by --accept-gap" in relay.stderr()
        kept = outbox.insert("kept")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        relay.arguments = []
        relay.start().wait_streaming()
    assert outbox.ids_in_kafka() == kept


@pytest.mark.parametrize("failover, expected", [("auto", True), ("on", True), ("off", False)])
def test_init_makes_a_failover_slot_where_the_server_can(every_postgres, failover, expected):
    outbox = Outbox(every_postgres, f"failover_{failover}", slot=False)
    outbox.config["source"]["slot"]["failover"] = failover
    code, _, stderr = command(outbox, "init")
    if every_postgres.version < 17:
        assert code == (78 if failover == "on" else 0), stderr
        assert "failover slots" in stderr or failover != "on"
    else:
        assert code == 0 and outbox.slot()["failover"] == expected


def test_a_stop_while_slot_creation_waits_leaves_no_slot_behind(postgres):
    outbox = Outbox(postgres, "given_up", slot=False)
    writer = outbox.connect()
    outbox.insert("a", connection=writer)  # Not committed: creation waits for it.
    with outbox.relay(source__slot__create="if_missing") as relay:
        relay.wait_log("waits for the transactions that are open now: PID")
        assert relay.live()[0] == 200
        assert relay.terminate() in (0, 75)
    creating = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%'"
    eventually(lambda: postgres.value(creating) == 0, 20, "the server has given up the creation")
    writer.rollback()
    writer.close()
    assert outbox.slot() is None
