"""The slot and the role: a slot that is gone, lost or moved by others is never passed over in silence (A8, A14, C1, C7)."""

import pytest

from support.outbox import SQL, Outbox
from support.postgres import Postgres
from support.relay import run_command


@pytest.fixture(scope="module", params=(15, 18), ids=lambda version: f"pg{version}")
def server(request):
    with Postgres(request.param) as pg:
        yield pg


@pytest.mark.parametrize("create", ["never", "if_missing"])
def test_a_slot_dropped_while_streaming_ends_the_relay_and_stays_gone(server, create):
    outbox = Outbox(server, f"dropped_{create}")
    with outbox.relay(source__slot__create=create) as relay:
        relay.wait_streaming()
        outbox.wait_on_stdout(relay, outbox.insert("1"))
        outbox.wait_confirmed(relay)
        code, _, stderr = run_command(["slot", "drop", "--force"], outbox.config)
        assert code == 0, stderr
        assert relay.wait_exit() == 66
        assert "has been dropped" in relay.stderr() and "last known position" in relay.stderr()
    assert outbox.slot() is None


def test_a_slot_dropped_while_stopped_is_not_made_anew(server):
    outbox = Outbox(server, "dropped_stopped")
    with outbox.relay() as relay:
        relay.wait_streaming()
        assert relay.terminate() == 0
        outbox.sql("SELECT pg_drop_replication_slot(%s)", [outbox.name])
        outbox.insert("in the table alone")
        assert relay.start().wait_exit() == 66
        assert "outbox-relay init" in relay.stderr()
    assert outbox.slot() is None


def test_a_slot_in_use_is_dropped_only_by_force(server):
    outbox = Outbox(server, "in_use")
    with outbox.relay() as relay:
        relay.wait_streaming()
        code, _, stderr = run_command(["slot", "drop"], outbox.config)
        assert code == 69 and f"PID {server.walsender_pid(outbox.name)}" in stderr and "--force" in stderr
        outbox.wait_on_stdout(relay, outbox.insert("still streaming"))


def test_a_slot_that_someone_else_advanced_while_the_relay_was_cut_off_is_a_gap(server):
    outbox = Outbox(server, "advanced")
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.wait_on_stdout(relay, outbox.insert("1"))
        outbox.wait_confirmed(relay)
        before = outbox.slot()["confirmed_flush_lsn"]
        relay.pause()
        server.sql("SELECT pg_terminate_backend(%s, 5000)", [server.walsender_pid(outbox.name)])
        skipped, = outbox.insert("skipped")
        after = outbox.sql("SELECT end_lsn FROM pg_replication_slot_advance(%s, pg_current_wal_lsn())",
                           [outbox.name])[0][0]
        relay.resume()

        assert relay.wait_exit() == 65
        assert f"from {before} to {after}" in relay.stderr()
        assert skipped not in outbox.ids_on_stdout(relay)


def test_the_relays_role_needs_no_more_than_the_file_in_sql_gives(server):
    """Case C7."""
    outbox = Outbox(server, "least_privilege", user="relay", slot=False)
    server.psql(SQL / "03_relay_role.sql", db=outbox.name)
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0 and outbox.slot()["plugin"] == "pgoutput", stderr
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.wait_on_stdout(relay, outbox.insert("1"))
        assert relay.terminate() == 0
    code, _, stderr = run_command(["slot", "drop"], outbox.config)
    assert code == 0 and outbox.slot() is None, stderr


def test_a_role_without_replication_is_told_what_to_run(server):
    outbox = Outbox(server, "no_replication", user="no_replication")
    server.sql("CREATE ROLE no_replication LOGIN")
    with outbox.relay() as relay:
        assert relay.wait_exit() == 77
        assert 'ALTER ROLE "no_replication" REPLICATION;' in relay.stderr()
    for arguments in (["init"], ["check", "--connect"], ["slot", "drop"]):
        code, out, err = run_command(arguments, outbox.config)
        assert code == 77 and 'ALTER ROLE "no_replication" REPLICATION;' in out + err, arguments


def test_a_slot_lost_to_the_size_limit_ends_the_relay_with_its_own_code(server):
    """Case C1. Last, since the limit costs every other slot of this server too."""
    outbox = Outbox(server, "lost")
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.wait_on_stdout(relay, outbox.insert("1"))
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        missed = outbox.insert("in the table alone")
        server.set(max_slot_wal_keep_size="1MB")
        for _ in range(3):
            server.sql("SELECT pg_logical_emit_message(false, 'filler', 'x')")
            server.sql("SELECT pg_switch_wal()")
        server.sql("CHECKPOINT")
        assert outbox.slot()["wal_status"] == "lost"

        assert relay.start().wait_exit() == 65
        assert "is lost" in relay.stderr() and "max_slot_wal_keep_size" in relay.stderr()
        assert missed[0] not in outbox.ids_on_stdout(relay)
    code, out, err = run_command(["check", "--connect"], outbox.config)
    assert code == 65 and "is lost" in out + err
