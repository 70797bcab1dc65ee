"""Where the policy is the dead-letter topic, what the broker refuses for good goes there with its reason, the rest
flows, and no record is blamed for its batch (E11, E13, rows 57, 61 and 62)."""

import pytest

from support.kafka import Kafka
from support.outbox import Outbox, event_id
from support.relay import run_command

CLASSES = ("too_large", "invalid_topic", "unknown_topic", "unauthorized", "invalid_record", "unmappable")


@pytest.fixture(scope="module")
def strict_kafka():
    with Kafka(settings={"auto.create.topics.enable": "false"}) as kafka:
        yield kafka


def outbox_with_dead_letters(postgres, kafka, name, dead_config=None):
    outbox = Outbox(postgres, name, kafka)
    dead = f"{name}.dead"
    kafka.create_topic(dead, config=dead_config)
    outbox.config["delivery"] = {"on_failure": {each: "dead_letter" for each in CLASSES},
                                 "dead_letter": {"topic": dead}}
    return outbox, dead


def headers(record):
    return {name: value.decode() for name, value in record.headers}


def text(size):
    return '{"text": "%s"}' % ("x" * size)


def wait_dead_lettered(relay, reason, count):
    """Metrics are a moment behind."""
    relay.wait_for(lambda: relay.metric("outbox_relay_dead_lettered_total", reason=reason) == count, 10,
                   f"{count} dead letters for {reason}")


def test_one_large_event_among_small_ones_goes_there_and_holds_up_none(postgres, strict_kafka):
    """Refused by the producer: its limit is below that of both topics."""
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "large_event", {"max.message.bytes": "10000000"})
    with outbox.relay() as relay:
        relay.wait_streaming()
        small = outbox.insert("a", "b")
        large = outbox.insert("a", payload=text(2_000_000))
        small += outbox.insert("a", "b", "a")
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0
        wait_dead_lettered(relay, "too_large", 1)
        assert relay.metric("outbox_relay_events_total", outcome="dead_lettered") == 1
        assert relay.metric("outbox_relay_events_failed_total", reason="too_large") >= 1
        assert relay.metric("outbox_relay_source_reconnects_total", reason="dead_letter") == 0, "nothing had left"
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == small
    # message.max.bytes is 1 MB by default: the letter cannot carry the value either.
    [pointer] = strict_kafka.consume(dead)
    found = headers(pointer)
    assert pointer.value is None and pointer.key == b"a"
    assert found["outbox-relay-pointer"] == "true"
    assert [found["outbox-relay-event-id"]] == large
    assert found["outbox-relay-class"] == "too_large" and "MSG_SIZE_TOO_LARGE" in found["outbox-relay-reason"]
    assert found["outbox-relay-original-topic"] == "large_event"


def test_a_record_over_its_topics_limit_goes_there_whole(postgres, strict_kafka):
    """Refused by the broker, in the middle of a transaction."""
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "over_limit")
    strict_kafka.alter_topic_config("over_limit", {"max.message.bytes": "50000"})
    with outbox.relay() as relay:
        relay.wait_streaming()
        with outbox.connect() as connection:
            before = outbox.insert("a", "b", "c", connection=connection)
            large = outbox.insert("a", payload=text(200_000), connection=connection)
            after = outbox.insert("a", "b", "c", connection=connection)
        connection.close()
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0
        wait_dead_lettered(relay, "too_large", 1)
        assert relay.metric("outbox_relay_kafka_producer_rebuilds_total", reason="dead_letter") >= 1
        later = outbox.insert("a")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == before + after + later, "each once, in order"
    [letter] = strict_kafka.consume(dead)
    found = headers(letter)
    assert event_id(letter) == large[0] and letter.key == b"a" and letter.value == text(200_000).encode()
    assert found["outbox-relay-source-table"] == "public.outbox_events"
    assert found["outbox-relay-ordinal"] == "3" and "/" in found["outbox-relay-commit-lsn"]
    assert found["outbox-relay-attempts"] == "1"
    assert found["event_type"] == "OrderPlaced", "its own headers too"
    assert "outbox-relay-pointer" not in found


def test_a_batch_over_the_topics_limit_is_no_records_fault(postgres, strict_kafka):
    """500 records of 330 bytes in one transaction, to a topic that takes 50,000 bytes at once; the policy is to halt."""
    outbox = Outbox(postgres, "small_batches", strict_kafka)
    strict_kafka.alter_topic_config("small_batches", {"max.message.bytes": "50000"})
    with outbox.relay() as relay:
        relay.wait_streaming()
        events = outbox.insert(*["a"] * 500, payload=text(314))
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0
        assert relay.metric("outbox_relay_kafka_producer_rebuilds_total", reason="batch_size") == 1
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == events


def test_a_lowered_topic_limit_makes_smaller_batches_while_it_runs(postgres, strict_kafka):
    """The limit is known by the refusal alone: it was larger when the producer asked."""
    outbox = Outbox(postgres, "lowered_limit", strict_kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        events = outbox.insert("a")
        outbox.wait_confirmed(relay)
        strict_kafka.alter_topic_config("lowered_limit", {"max.message.bytes": "20000"})
        events += outbox.insert(*["a"] * 500, payload=text(314))
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0
        assert relay.metric("outbox_relay_kafka_producer_rebuilds_total", reason="batch_size") >= 1
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == events, "each once, in order"


def test_a_missing_topic_holds_up_no_other(postgres, strict_kafka):
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "other_topics")
    outbox.config["defaults"] = {"route": {"topic": "${aggregate_id}"}}
    with outbox.relay(sink__kafka__properties={"topic.metadata.propagation.max.ms": 1000}) as relay:
        relay.wait_streaming()
        sent, lost = [], []
        for _ in range(3):
            sent += outbox.insert("other_topics")
            lost += outbox.insert("absent.topic", "absent.topic")
        sent += outbox.insert("other_topics")
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0
        wait_dead_lettered(relay, "unknown_topic", 6)
        # The verdict is on the topic: the producer is not made anew for each event.
        assert relay.metric("outbox_relay_kafka_producer_rebuilds_total", reason="dead_letter") == 1
        assert relay.terminate() == 0
    assert set(outbox.ids_in_kafka()) == set(sent)
    letters = strict_kafka.consume(dead)
    assert [event_id(letter) for letter in letters] == lost
    assert {headers(letter)["outbox-relay-original-topic"] for letter in letters} == {"absent.topic"}


def test_a_record_that_the_broker_rejects_is_found_in_its_batch(postgres, strict_kafka):
    """A compacted topic takes no record without a key; its neighbours in the batch are not to blame."""
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "compacted")
    strict_kafka.alter_topic_config("compacted", {"cleanup.policy": "compact"})
    outbox.config["defaults"]["on_null"] = {"key": "send"}
    outbox.config["defaults"]["columns"] = {"aggregate_id": "event_type"}
    outbox.sql("ALTER TABLE outbox_events ALTER COLUMN event_type DROP NOT NULL")
    with outbox.relay() as relay:
        relay.wait_streaming()
        with outbox.connect() as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)"
                           " SELECT gen_random_uuid(), 'order', n::text,"
                           " CASE WHEN n <> 50 THEN 'k' END, '{}' FROM generate_series(1, 100) n RETURNING id::text")
            events = [event for event, in cursor.fetchall()]
        connection.close()
        outbox.wait_confirmed(relay, deadline_s=60)
        assert relay.metric("outbox_relay_halts_total") == 0
        wait_dead_lettered(relay, "invalid_record", 1)
        assert relay.terminate() == 0
    bad = events.pop(49)
    assert set(outbox.ids_in_kafka()) == set(events)
    [letter] = strict_kafka.consume(dead)
    assert event_id(letter) == bad and letter.key is None


def test_names_that_kafka_does_not_take_never_reach_it(postgres, strict_kafka):
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "bad_names")
    outbox.config["defaults"] = {"route": {"topic": "${aggregate_id}"}}
    strict_kafka.create_topic("Bad.Names")
    with outbox.relay() as relay:
        relay.wait_streaming()
        bad = outbox.insert("bestellung ü", "a b", "", "..", "x" * 250)
        good = outbox.insert("bad_names", "Bad.Names")
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0
        wait_dead_lettered(relay, "invalid_topic", 5)
        assert relay.terminate() == 0
    arrived = strict_kafka.consume(["bad_names", "Bad.Names"])
    assert {event_id(record) for record in arrived} == set(good) and len(arrived) == 2
    letters = strict_kafka.consume(dead)
    assert [event_id(letter) for letter in letters] == bad
    assert [letter.key.decode() for letter in letters] == ["bestellung ü", "a b", "", "..", "x" * 250]


def test_a_missing_dead_letter_topic_halts_and_names_it(postgres, strict_kafka):
    outbox, _ = outbox_with_dead_letters(postgres, strict_kafka, "no_dead_topic")
    outbox.config["delivery"]["dead_letter"]["topic"] = "absent.dead"
    with outbox.relay(sink__kafka__properties={"topic.metadata.propagation.max.ms": 1000}) as relay:
        relay.wait_streaming()
        [large] = outbox.insert("a", payload=text(2_000_000))
        later = outbox.insert("a")
        relay.wait_for(lambda: relay.ready()[0] == 503 and "halted" in relay.ready()[1], 30, "the relay is halted")
        assert "absent.dead" in relay.ready()[1]
        strict_kafka.create_topic("absent.dead")
        relay.wait_for(lambda: relay.ready()[0] == 200, 60, "it flows again")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert set(outbox.ids_in_kafka()) == set(later)
    [pointer] = strict_kafka.consume("absent.dead")
    assert headers(pointer)["outbox-relay-event-id"] == large


def test_what_was_dead_lettered_is_not_sent_again_after_a_kill(postgres, strict_kafka):
    """Confirmed is confirmed: a killed relay finds nothing of it again."""
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "killed_after")
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("a", payload=text(2_000_000))
        outbox.wait_confirmed(relay)
        relay.kill9()
        relay.start()
        relay.wait_streaming()
        events = outbox.insert("a")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == events
    assert len(strict_kafka.consume(dead)) == 1


def test_with_exactly_once_a_dead_letter_goes_in_a_transaction_of_its_stream(postgres, strict_kafka):
    """Refused by the broker, which ends the transaction that it stood in; nothing of that one is seen."""
    outbox, dead = outbox_with_dead_letters(postgres, strict_kafka, "dead_once")
    outbox.config["delivery"]["guarantee"] = "exactly_once"
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
    strict_kafka.alter_topic_config("dead_once", {"max.message.bytes": "50000"})
    with outbox.relay() as relay:
        relay.wait_streaming()
        before = outbox.insert("a", "b")
        large = outbox.insert("a", payload=text(200_000))
        too_large_even_there = outbox.insert("a", payload=text(2_000_000))
        after = outbox.insert("a", "b")
        outbox.wait_confirmed(relay, deadline_s=60)
        assert relay.metric("outbox_relay_halts_total") == 0
        wait_dead_lettered(relay, "too_large", 2)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == before + after
    letter, pointer = strict_kafka.consume(dead)
    assert event_id(letter) == large[0] and letter.value is not None
    assert headers(pointer)["outbox-relay-event-id"] == too_large_even_there[0] and pointer.value is None
