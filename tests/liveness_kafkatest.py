"""A broker that is away: back-pressure that keeps the connection, says so, and passes (B5, F2)."""

import os
import threading

import pytest

from support.kafka import Kafka
from support.outbox import Outbox, event_id

PAUSE_S = 60 if os.environ.get("OUTBOX_RELAY_LONG_TESTS") else 20


@pytest.fixture(scope="module")
def broker():
    """Of its own, since it is stopped and paused."""
    with Kafka() as kafka:
        yield kafka


def test_a_paused_broker_with_many_rows_waiting_costs_no_connection(postgres, broker):
    """Case B5: the connection is kept by status updates alone, far longer than wal_sender_timeout."""
    outbox = Outbox(postgres, "paused", broker, partitions=3)
    options = {"source__libpq": {"options": "-c wal_sender_timeout=3s"},
               "sink__kafka__properties": {"queue.buffering.max.messages": 10_000}, "http__unready_after": "5s"}
    with outbox.relay(**options) as relay:
        relay.wait_streaming()
        first = outbox.insert("1")
        outbox.wait_confirmed(relay)
        walsender = postgres.walsender_pid(outbox.name)
        broker.pause()
        try:
            events = first + outbox.insert(*(f"key-{number % 100}" for number in range(50_000)))
            end = outbox.written()
            relay.wait_state("blocked")
            threading.Event().wait(PAUSE_S)  # The case: that long, with a timeout of 3 s.
            assert relay.live()[0] == 200
            status, reason = relay.ready()
            assert status == 503 and "acknowledgement" in reason
            assert outbox.confirmed() < end
        finally:
            broker.resume()
        outbox.wait_confirmed(relay, deadline_s=90)
        relay.wait_ready()
        assert postgres.walsender_pid(outbox.name) == walsender
        assert relay.metric("outbox_relay_source_reconnects_total") == 0
    arrived = outbox.in_kafka()
    assert sorted(event_id(record) for record in arrived) == sorted(events)


def test_a_broker_that_is_down_from_the_start_is_waited_for(postgres, broker):
    outbox = Outbox(postgres, "down", broker, partitions=3)
    broker.stop()
    try:
        options = {"sink__kafka__properties": {"queue.buffering.max.messages": 1000,
                                               "reconnect.backoff.max.ms": 1000},
                   "http__unready_after": "3s"}
        with outbox.relay(**options) as relay:
            relay.wait_streaming().wait_ready()
            events = outbox.insert("key-0")
            end = outbox.written()
            events += [event for number in range(30) for event in outbox.insert(*([f"key-{number}"] * 100))]
            relay.wait_state("blocked")
            relay.wait_for(lambda: relay.ready()[0] == 503, 20, "the relay is unready")
            assert "acknowledgement" in relay.ready()[1] and relay.live()[0] == 200
            assert relay.metric("outbox_relay_inflight_events") <= 1000
            assert outbox.confirmed() < end and outbox.slot()["active"]
            broker.start()
            outbox.wait_confirmed(relay, deadline_s=60)
            relay.wait_ready()
            assert relay.terminate() == 0
    finally:
        broker.start()
    arrived = outbox.in_kafka()
    place = {event: number for number, event in enumerate(events)}
    assert sorted(event_id(record) for record in arrived) == sorted(events)
    for partition in range(3):
        order = [place[event_id(record)] for record in arrived if record.partition == partition]
        assert order == sorted(order)


def test_a_broker_that_dies_between_acknowledgements_loses_and_confirms_nothing_too_early(postgres, broker):
    """Case B3: other tables stay busy meanwhile, and the relay is killed before the broker is back."""
    outbox = Outbox(postgres, "pinned", broker)
    outbox.sql("CREATE TABLE other (id int)")
    with outbox.relay(source__libpq={"options": "-c wal_sender_timeout=3s"}) as relay:
        relay.wait_streaming()
        first = outbox.insert("1")
        outbox.wait_confirmed(relay)
        broker.pause()
        try:
            waiting = outbox.insert(*range(10))
            end = outbox.written()
            relay.wait_for(lambda: relay.metric("outbox_relay_inflight_events") == 10)
            before = relay.metric("outbox_relay_source_messages_total", type="keepalive")
            relay.wait_for(lambda: outbox.sql("INSERT INTO other VALUES (1) RETURNING 1") and relay.metric(
                "outbox_relay_source_messages_total", type="keepalive") >= before + 3, 30, "three keepalives")
            assert outbox.confirmed() < end
            relay.kill9()
        finally:
            broker.resume()
        relay.start().wait_streaming()
        outbox.wait_confirmed(relay)
    assert list(dict.fromkeys(outbox.ids_in_kafka())) == first + waiting
