"""What may be confirmed: never past what is not acknowledged, and never far behind what is (A4, A5, A10, A11)."""

import os
import threading
import time

import pytest
from confluent_kafka.admin import NewTopic

from support.kafka import Kafka
from support.load import Load
from support.outbox import Outbox, event_id
from support.wait import eventually

STOPPED_S = 180 if os.environ.get("OUTBOX_RELAY_LONG_TESTS") else 8


@pytest.fixture(scope="module")
def three_brokers():
    with Kafka(brokers=3, heap="256m") as kafka:
        yield kafka


def create_led_by(kafka, topic, broker):
    """A topic of one partition that lives on that broker alone."""
    admin = kafka._admin()
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[broker.node_id]])], operation_timeout=30)[topic].result(30)
    topics = lambda: admin.list_topics(timeout=10).topics
    eventually(lambda: topic in topics() and topics()[topic].partitions[0].leader == broker.node_id, 30,
               f"broker {broker.node_id} leads {topic}")


def test_a_transaction_for_a_broker_that_is_away_holds_back_the_confirmation_of_later_ones(postgres, three_brokers):
    """Case A5."""
    away, *_, live = three_brokers.brokers
    outbox = Outbox(postgres, "two_brokers")
    topics = {"away": away, "live": live}
    for topic, broker in topics.items():
        create_led_by(three_brokers, topic, broker)
    kafka_sink = {"kafka": {"brokers": three_brokers.bootstrap.split(",")}}
    with outbox.relay(sink=kafka_sink, defaults__route__topic="${aggregate_id}",
                      source__libpq={"options": "-c wal_sender_timeout=1s"}) as relay:
        relay.wait_streaming()
        warm_up = outbox.insert("away", "live")
        outbox.wait_confirmed(relay)
        away.pause()
        try:
            for_the_away = outbox.insert("away")
            end_of_first = outbox.written()
            for_the_live = outbox.insert("live")
            with three_brokers.reader("live") as reader:
                assert [event_id(record) for record in reader.read(2)] == [warm_up[1], *for_the_live]
            # Status updates go on meanwhile.
            sent = relay.metric("outbox_relay_confirmations_total")
            relay.wait_for(lambda: relay.metric("outbox_relay_inflight_events") == 1, 10, "one acknowledgement is missing")
            relay.wait_for(lambda: relay.metric("outbox_relay_confirmations_total") >= sent + 2, 30, "status updates")
            assert outbox.confirmed() < end_of_first
            relay.kill9()
        finally:
            away.resume()
        relay.start().wait_streaming()
        outbox.wait_confirmed(relay, deadline_s=60)
    arrived = [event_id(record) for record in three_brokers.consume("away")]
    assert list(dict.fromkeys(arrived)) == [warm_up[0], *for_the_away]


def test_the_first_event_after_a_long_stop_under_writes_comes_within_seconds_and_none_is_skipped(postgres, kafka):
    """Case A4."""
    outbox = Outbox(postgres, "long_stop", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("before")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        with Load(outbox, seed=4, writers=2, rows=5, rows_per_second=2000):
            threading.Event().wait(STOPPED_S)  # The case: stopped for that long while others write.
        assert len(outbox.ids()) > 1000
        relay.start()
        started = time.monotonic()
        with kafka.reader("long_stop") as reader:
            reader.read(2)
        took = time.monotonic() - started
        outbox.wait_confirmed(relay, deadline_s=120)
    print(f"{len(outbox.ids())} events waited, the first came after {took:.2f} s")
    assert took < 5
    assert sorted(outbox.ids_in_kafka()) == sorted(outbox.ids())


def test_the_lag_stays_bounded_under_steady_load_and_not_only_when_it_pauses(postgres, kafka):
    """Case A10."""
    outbox = Outbox(postgres, "steady", kafka, partitions=3)
    lags = []
    with outbox.relay() as relay:
        relay.wait_streaming()
        with Load(outbox, seed=10, writers=2, rows=10, rows_per_second=1000):
            first = outbox.written()
            deadline = time.monotonic() + 12
            written = []
            while time.monotonic() < deadline:
                now = time.monotonic()
                written.append((now, outbox.written()))
                confirmed = outbox.confirmed()
                # How old the oldest position is that is written and not confirmed.
                behind = next((now - at for at, lsn in written if lsn > confirmed), 0.0)
                lags.append(behind)
                threading.Event().wait(0.1)
            assert outbox.written() - first > 1_000_000, "there was load"
        outbox.wait_confirmed(relay)
    print(f"the oldest unconfirmed position was at most {max(lags):.2f} s old")
    assert max(lags) < 4, "a confirmation under load may be a second late"
    assert sorted(outbox.ids_in_kafka()) == sorted(outbox.ids())


@pytest.mark.parametrize("end", ["killed", "cut off"])
def test_a_transaction_that_ends_in_the_middle_comes_whole(postgres, kafka, end):
    """Case A11: of far more rows than the queue of the producer, a turn of the loop or a batch of Kafka hold."""
    outbox = Outbox(postgres, f"large_{end.replace(' ', '_')}", kafka, partitions=3)
    rows = 60_000
    with outbox.relay(sink__kafka__properties={"queue.buffering.max.messages": 2000}) as relay:
        relay.wait_streaming()
        events = outbox.insert(*(f"key-{number % 30}" for number in range(rows)))
        end = outbox.written()
        relay.wait_for(lambda: relay.metric("outbox_relay_source_messages_total", type="insert") > rows / 10, 30)
        assert relay.metric("outbox_relay_source_messages_total", type="insert") < rows, "it is in the middle"
        if end == "killed":
            relay.kill9()
            assert outbox.confirmed() < end
            relay.start().wait_streaming()
        else:
            postgres.sql("SELECT pg_terminate_backend(%s)", [postgres.walsender_pid(outbox.name)])
        outbox.wait_confirmed(relay, deadline_s=90)
    arrived = outbox.in_kafka()
    place = {event: number for number, event in enumerate(events)}
    assert {event_id(record) for record in arrived} == set(events)
    for partition in range(3):
        mine = [place[event_id(record)] for record in arrived if record.partition == partition]
        firsts = list(dict.fromkeys(mine))
        assert firsts == sorted(firsts)
    if end == "cut off":
        assert len(arrived) == len(events), "what this process has delivered it does not send again"
