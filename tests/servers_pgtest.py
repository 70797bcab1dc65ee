"""A running relay meets another history: a restored or promoted server is read from its slot, not from our memory."""

import pytest

from support.outbox import Outbox
from support.postgres import Postgres


def write_filler(outbox, megabytes):
    for _ in range(megabytes):
        outbox.sql("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1048576))")


def test_what_is_committed_on_a_promoted_standby_arrives_whatever_the_relay_had_read_from_the_old_primary():
    with Postgres(18) as primary:
        outbox = Outbox(primary, "promoted")
        outbox.insert("before the copy")
        primary.stop()
        copy = primary.copy_data()
        primary.start()
        with Postgres(18, data_from=copy, standby_of=primary) as standby:
            standby.set(primary_conninfo="")  # It falls behind.
            hosts = {"source__host": f"{primary.host},{standby.host}", "source__port": f"{primary.port},{standby.port}",
                     "source__libpq": {"target_session_attrs": "read-write"}}
            with outbox.relay(**hosts) as relay:
                relay.wait_streaming()
                write_filler(outbox, 2)
                outbox.wait_on_stdout(relay, outbox.insert("on the old primary alone"))
                outbox.wait_confirmed(relay)
                read_up_to = outbox.written()
                relay.pause()
                primary.kill()
                standby.promote()
                outbox.pg = standby
                early = outbox.insert("below what was read")
                assert outbox.written() < read_up_to
                write_filler(outbox, 4)
                late = outbox.insert("beyond it")
                relay.resume()
                outbox.wait_on_stdout(relay, early + late)
                outbox.wait_confirmed(relay)
                assert "the server is on timeline 2, which left timeline 1 at" in relay.stderr()


@pytest.mark.parametrize("grown", [False, True], ids=["still_behind", "grown_beyond_what_was_read"])
def test_what_is_committed_on_a_restored_server_arrives(grown):
    """The data directory of earlier, at the same port: neither its system identifier nor its timeline has changed."""
    with Postgres(15) as pg:
        outbox = Outbox(pg, "restored")
        outbox.insert("before the copy")
        pg.stop()
        copy = pg.copy_data()
        pg.start()
        with outbox.relay() as relay:
            relay.wait_streaming()
            write_filler(outbox, 2)
            outbox.wait_on_stdout(relay, outbox.insert("lost with the old data"))
            outbox.wait_confirmed(relay)
            read_up_to = outbox.written()
            relay.pause()
            pg.kill()
            pg.restore(copy)
            pg.start()
            events = outbox.insert("after the restore")
            assert outbox.written() < read_up_to
            if grown:
                write_filler(outbox, 4)
                events += outbox.insert("beyond what was read")
            relay.resume()
            outbox.wait_on_stdout(relay, events)
            outbox.wait_confirmed(relay)
