"""PostgreSQL stops and comes back under a running relay: it is not held up, and nothing is repeated (C16; PostgreSQL
14 to 16 forget what was confirmed even at a clean restart, 17 and 18 at a crash)."""

import pytest

from support.outbox import Outbox


@pytest.fixture(scope="module")
def outbox(every_postgres):
    return Outbox(every_postgres, "stopping")


@pytest.fixture
def relay(outbox):
    with outbox.relay() as relay:
        relay.wait_streaming()
        yield relay


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_stops_at_once_under_an_idle_relay_which_then_goes_on_without_a_repeat(outbox, relay, mode):
    pg = outbox.pg
    events = [outbox.insert(number)[0] for number in range(10)]
    outbox.wait_on_stdout(relay, events)
    outbox.wait_confirmed(relay)

    for _ in range(2):
        assert pg.stop(mode) < 2
        relay.wait_for(lambda: relay.ready()[0] == 503, 10, "the relay is unready")
        assert relay.live()[0] == 200
        pg.start()
        relay.wait_ready()
        events += outbox.insert("after")
        outbox.wait_on_stdout(relay, events)

    outbox.wait_confirmed(relay)
    assert outbox.ids_on_stdout(relay) == events
    assert relay.terminate() == 0


def test_a_server_stopped_with_rows_on_the_way_loses_and_repeats_nothing(outbox, relay):
    # By what it has delivered the relay knows the history again: a process that has delivered nothing yet cannot.
    events = outbox.insert("first")
    outbox.wait_on_stdout(relay, events)
    connection = outbox.connect()
    open_row = outbox.insert("never", connection=connection)
    events += outbox.insert(*range(5000))
    outbox.pg.stop("immediate")
    connection.close()
    outbox.pg.start()
    events += outbox.insert("after")
    outbox.wait_on_stdout(relay, events)
    outbox.wait_confirmed(relay)
    assert outbox.ids_on_stdout(relay) == events and open_row[0] not in events
