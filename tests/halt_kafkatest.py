"""What the broker refuses for good halts the relay: it stays up, unready, with the slot free and unmoved, says what to
do, and goes on by itself once that is done, sending nothing again that was acknowledged (E11, F5 as far as halting)."""

import pytest

from support.kafka import Kafka
from support.outbox import Outbox, event_id

IMPATIENT = {"topic.metadata.propagation.max.ms": 1000}


@pytest.fixture(scope="module")
def strict_kafka():
    with Kafka(settings={"auto.create.topics.enable": "false"}) as kafka:
        yield kafka


def outbox_routed_by_key(postgres, kafka, name):
    """The key of an event is also its topic."""
    outbox = Outbox(postgres, name, kafka)
    outbox.config["defaults"] = {"route": {"topic": "${aggregate_id}"}}
    return outbox


def wait_halted(relay, outbox, *words):
    relay.wait_for(lambda: relay.ready()[0] == 503 and "halted" in relay.ready()[1], 30, "the relay is halted")
    reason = relay.ready()[1]
    for word in words:
        assert word in reason, reason
    relay.wait_for(lambda: not outbox.slot()["active"], 10, "the replication connection is released")
    assert relay.live()[0] == 200


def test_a_missing_topic_halts_and_flows_once_it_is_made(postgres, strict_kafka):
    outbox = outbox_routed_by_key(postgres, strict_kafka, "missing_topic")
    with outbox.relay(sink__kafka__properties=IMPATIENT) as relay:
        relay.wait_streaming()
        [before] = outbox.insert("missing_topic")
        outbox.wait_confirmed(relay)
        # One transaction: its first event is acknowledged, and must not come again at each try.
        first, lost, last = outbox.insert("missing_topic", "absent.topic", "missing_topic")
        wait_halted(relay, outbox, "absent.topic", "kafka-topics.sh", "insert number 2")
        confirmed = outbox.confirmed()
        halts = relay.metric("outbox_relay_halts_total")
        relay.wait_for(lambda: relay.metric("outbox_relay_halts_total") >= halts + 2, 60, "it tries again")
        assert outbox.confirmed() == confirmed
        assert relay.stderr().count("error halted") == 1, "said once, not at each try"

        strict_kafka.create_topic("absent.topic")
        relay.wait_for(lambda: relay.ready()[0] == 200, 60, "it flows again")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert [event_id(record) for record in strict_kafka.consume("absent.topic")] == [lost]
    arrived = outbox.ids_in_kafka()
    assert arrived[:2] == [before, first] and arrived.count(first) == 1
    assert arrived.count(last) == 1 and set(arrived) == {before, first, last}


def test_a_record_over_the_topics_limit_halts_and_flows_once_the_limit_is_raised(postgres, kafka):
    outbox = Outbox(postgres, "small_limit", kafka)
    kafka.alter_topic_config("small_limit", {"max.message.bytes": "50000"})
    with outbox.relay() as relay:
        relay.wait_streaming()
        before = outbox.insert("a")
        outbox.wait_confirmed(relay)
        large = outbox.insert("a", payload='{"text": "%s"}' % ("x" * 200_000))
        after = outbox.insert("a", "b")
        wait_halted(relay, outbox, "small_limit", "max.message.bytes")

        kafka.alter_topic_config("small_limit", {"max.message.bytes": "1000000"})
        relay.wait_for(lambda: relay.ready()[0] == 200, 60, "it flows again")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == before + large + after, "each once, in order"
