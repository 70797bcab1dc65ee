"""What reaches Kafka: every committed event, whole, in the order of the commits per key, and nothing else."""

import json

import pytest

from support.outbox import Outbox, event_id
from support.postgres import Postgres


@pytest.fixture(scope="module")
def postgres():
    with Postgres(15, settings={"max_prepared_transactions": 5}) as server:
        yield server


def test_a_transaction_left_open_while_a_later_one_is_confirmed_and_the_relay_killed_arrives_whole(postgres, kafka):
    """Case A1: the end of a commit may be the position of the next change of a transaction that is still open."""
    outbox = Outbox(postgres, "interleaved", kafka)
    a = outbox.connect()
    with outbox.relay() as relay:
        relay.wait_streaming()
        of_a = [outbox.insert("a", connection=a)[0] for _ in range(5)]
        of_b = outbox.insert("b")
        assert outbox.ids_in_kafka(until=1) == of_b
        outbox.wait_confirmed(relay)
        relay.kill9()
        of_a += [outbox.insert("a", connection=a)[0] for _ in range(5)]
        a.commit()
        a.close()

        relay.start().wait_streaming()
        outbox.wait_confirmed(relay)
        assert outbox.ids_in_kafka() == of_b + of_a


def test_a_row_that_compresses_well_costs_its_successors_nothing(postgres, kafka):
    """Case A13: the text of such a row is far longer than its WAL, so that "start + length" lies beyond later commits."""
    outbox = Outbox(postgres, "compressible", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        events = []
        for _ in range(3):
            before = outbox.written()
            events += outbox.insert("1", payload=json.dumps("x" * 900_000))
            assert outbox.written() - before < 200_000, "the row is far longer than its WAL"
            outbox.wait_confirmed(relay)
            assert outbox.confirmed() <= outbox.written()
            relay.kill9()
            events += [outbox.insert("1")[0] for _ in range(10)]
            relay.start().wait_streaming()
        outbox.wait_confirmed(relay)
    assert outbox.ids_in_kafka() == events


def test_what_was_rolled_back_never_appears(postgres, kafka):
    outbox = Outbox(postgres, "rolled_back", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        connection = outbox.connect()
        outbox.insert("never", connection=connection)
        connection.rollback()
        kept = outbox.insert("1", connection=connection)
        with connection.cursor() as cursor:
            cursor.execute("SAVEPOINT s")
            outbox.insert("never", connection=connection)
            cursor.execute("ROLLBACK TO s")
            cursor.execute("SAVEPOINT s2")
            kept += outbox.insert("1", connection=connection)
            cursor.execute("RELEASE s2")
        connection.commit()
        outbox.insert("never", connection=connection)
        connection.close()
        kept += outbox.insert("last")
        outbox.wait_confirmed(relay)
    assert outbox.ids_in_kafka() == kept


def test_an_event_deleted_in_its_own_transaction_is_delivered(postgres, kafka):
    outbox = Outbox(postgres, "deleted", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        connection = outbox.connect()
        events = outbox.insert("1", "2", connection=connection)
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM outbox_events")
        connection.commit()
        connection.close()
        assert outbox.ids() == []
        outbox.wait_confirmed(relay)
    assert outbox.ids_in_kafka() == events


def test_a_prepared_transaction_arrives_whole_at_its_commit_and_not_before(postgres, kafka):
    outbox = Outbox(postgres, "prepared", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        connection = outbox.connect(autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            abandoned = outbox.insert("never", connection=connection)
            cursor.execute("PREPARE TRANSACTION 'abandoned'")
            cursor.execute("BEGIN")
            prepared = outbox.insert("1", "2", "3", connection=connection)
            cursor.execute("PREPARE TRANSACTION 'kept'")
            between = outbox.insert("between")
            outbox.wait_confirmed(relay)
            assert outbox.ids_in_kafka() == between
            relay.kill9()
            cursor.execute("ROLLBACK PREPARED 'abandoned'")
            cursor.execute("COMMIT PREPARED 'kept'")
        connection.close()
        relay.start().wait_streaming()
        outbox.wait_confirmed(relay)
    arrived = outbox.ids_in_kafka()
    assert arrived == between + prepared and abandoned[0] not in arrived


def test_a_burst_far_beyond_the_producers_queue_is_back_pressure_and_no_error(postgres, kafka):
    """Case F8."""
    outbox = Outbox(postgres, "burst", kafka, partitions=3)
    with outbox.relay(sink__kafka__properties={"queue.buffering.max.messages": 100}) as relay:
        relay.wait_streaming()
        events = outbox.insert(*(f"key-{number % 50}" for number in range(10_000)))
        outbox.wait_confirmed(relay, deadline_s=60)
        assert relay.metric("outbox_relay_backpressure_seconds_total") > 0
        assert relay.metric("outbox_relay_events_failed_total") == 0
        relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == 10_000)
        assert " error" not in relay.stderr() and relay.ready()[0] == 200
    arrived = outbox.in_kafka()
    assert sorted(event_id(record) for record in arrived) == sorted(events)
    place = {event: number for number, event in enumerate(events)}
    for partition in range(3):
        mine = [place[event_id(record)] for record in arrived if record.partition == partition]
        assert mine and mine == sorted(mine)


def test_keys_lie_on_the_partitions_that_a_java_producer_chooses(postgres, kafka):
    """Case F10."""
    outbox = Outbox(postgres, "keys", kafka, partitions=12)
    kafka.create_topic("keys-by-java", partitions=12)
    keys = [f"order-{number}" for number in range(990)] + [
        "", " ", "ключ", "鍵", "🔑", "a" * 1000, "0", "-1", "a\tb", "é"]
    assert len(set(keys)) == 1000
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert(*keys)
        outbox.wait_confirmed(relay)
    ours = {record.key.decode(): record.partition for record in outbox.in_kafka()}
    assert ours == kafka.java_partitions("keys-by-java", keys)
    assert len(set(ours.values())) == 12
