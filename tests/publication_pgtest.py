"""The publication and its table: what PostgreSQL passes over in silence is noticed, and locks are not waited for (C6, C9, D2)."""

import time

import pytest

from support.outbox import Outbox
from support.postgres import Postgres
from support.relay import run_command


@pytest.fixture(scope="module", params=(15, 17, 18), ids=lambda version: f"pg{version}")
def server(request):
    with Postgres(request.param) as pg:
        yield pg


def create_publication(outbox, name=None):
    name = (name or outbox.name).replace('"', '""')
    outbox.sql(f"CREATE PUBLICATION \"{name}\" FOR TABLE outbox_events WITH (publish = 'insert')")


@pytest.mark.parametrize("client_min_messages", ["notice", "error"])
def test_rows_written_while_the_publication_was_missing_end_the_relay_before_they_are_confirmed(
        server, client_min_messages):
    """Case C9. The publication is back before any look at the catalog could miss it."""
    outbox = Outbox(server, f"missing_{client_min_messages}")
    server.sql(f"ALTER DATABASE {outbox.name} SET client_min_messages = '{client_min_messages}'")
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.wait_on_stdout(relay, outbox.insert("1"))
        outbox.wait_confirmed(relay)
        relay.pause()
        outbox.sql(f"DROP PUBLICATION {outbox.name}")
        unpublished = outbox.insert("in the table alone")
        end = outbox.written()
        create_publication(outbox)
        published = outbox.insert("behind it")
        relay.resume()

        assert relay.wait_exit() == 66
        said = relay.stderr()
        assert f'publication "{outbox.name}"' in said and ("table alone" in said or "cannot be had from the slot" in said)
        assert not {*unpublished, *published} & set(outbox.ids_on_stdout(relay))
    assert outbox.confirmed() < end


def test_a_publication_dropped_in_mid_stream_ends_a_relay_without_events_too(server):
    outbox = Outbox(server, "dropped")
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.sql("DROP PUBLICATION dropped")
        assert relay.wait_exit(30) == 66
        assert 'publication "dropped" does not exist' in relay.stderr() and "CREATE PUBLICATION" in relay.stderr()


def test_a_mis_cased_publication_is_missing(server):
    outbox = Outbox(server, "cased")
    with outbox.relay(source__publication__name="Cased") as relay:
        assert relay.wait_exit() == 66
        assert 'publication "Cased" does not exist' in relay.stderr()


def test_a_publication_may_have_any_name(server):
    outbox = Outbox(server, "any_name")
    name = 'Out,"b" ox\'é'
    create_publication(outbox, name)
    outbox.sql("DROP PUBLICATION any_name")
    events = outbox.insert("1")
    with outbox.relay(source__publication__name=name) as relay:
        outbox.wait_on_stdout(relay, events)
        outbox.wait_on_stdout(relay, outbox.insert("2"))
        assert relay.terminate() == 0


def test_a_table_that_leaves_the_publication_makes_the_relay_unready_until_it_is_back(server):
    """Case D2: PostgreSQL says nothing."""
    outbox = Outbox(server, "departed")
    with outbox.relay() as relay:
        relay.wait_streaming().wait_ready()
        outbox.sql("ALTER PUBLICATION departed DROP TABLE outbox_events")
        relay.wait_for(lambda: relay.ready()[0] == 503, 30, "the relay is unready")
        remedy = 'ALTER PUBLICATION "departed" ADD TABLE "public"."outbox_events";'
        assert remedy in relay.ready()[1] and remedy in relay.stderr()
        assert relay.live()[0] == 200
        outbox.sql(remedy)
        events = outbox.insert("after")
        outbox.wait_on_stdout(relay, events)
        relay.wait_ready()


def test_a_locked_table_does_not_hold_up_a_start(server):
    """Case C6."""
    outbox = Outbox(server, "locked_start")
    with outbox.connect() as holder:
        with holder.cursor() as cursor:
            cursor.execute("LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        with outbox.relay(source__publication__create="if_missing") as relay:
            relay.wait_streaming(10)
            took = time.monotonic() - started
            assert took < 5, "no lock was waited for"
            holder.rollback()
            outbox.wait_on_stdout(relay, outbox.insert("1"))


def test_init_does_not_wait_for_ever_for_a_lock_and_names_the_holder(server):
    """Case C6."""
    outbox = Outbox(server, "locked_init", slot=False)
    outbox.sql("DROP PUBLICATION locked_init")
    with outbox.connect() as holder:
        with holder.cursor() as cursor:
            cursor.execute("LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE")
        pid = holder.info.backend_pid
        started = time.monotonic()
        code, _, stderr = run_command(["init"], outbox.config)
        assert code == 69 and f"PID {pid}" in stderr, stderr
        assert time.monotonic() - started < 15
        holder.rollback()
    holder.close()
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
