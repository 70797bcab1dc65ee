"""What is held is bounded: by the budget at full back-pressure, and by a few times the largest row (I6, rows 25, 49)."""

import pytest

from support.kafka import Kafka
from support.outbox import Outbox

MEBIBYTE = 1024 * 1024
ROW = 100 * MEBIBYTE


@pytest.fixture(scope="module")
def roomy_kafka():
    """Takes requests of more than 100 MB."""
    with Kafka(settings={"socket.request.max.bytes": str(200 * MEBIBYTE)}, heap="768m") as kafka:
        yield kafka


def peak_rss(relay):
    """The most that was ever resident, in bytes."""
    with open(f"/proc/{relay.pid}/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def insert_large_row(outbox):
    with outbox.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)"
                       " VALUES ('order', 'large', 'Placed', jsonb_build_object('text', repeat('x', %s)))"
                       " RETURNING id::text", [ROW])
        [[event]] = cursor.fetchall()
    connection.close()
    return event


def report(capsys, text):
    with capsys.disabled():
        print(f"\n  {text}")


def test_a_row_of_100_mb_is_delivered_where_all_limits_allow_it(postgres, roomy_kafka, capsys):
    outbox = Outbox(postgres, "large_row", roomy_kafka)
    roomy_kafka.alter_topic_config("large_row", {"max.message.bytes": str(120 * MEBIBYTE)})
    with outbox.relay(sink__kafka__properties={"message.max.bytes": 120 * MEBIBYTE},
                      memory__budget="16MiB") as relay:
        relay.wait_streaming()
        [before] = outbox.insert("small")
        outbox.wait_confirmed(relay)
        base = peak_rss(relay)
        large = insert_large_row(outbox)
        [after] = outbox.insert("small")
        outbox.wait_confirmed(relay, deadline_s=120)
        peak = peak_rss(relay)
        report(capsys, f"a row of 100 MB: {base >> 20} MB before, {peak >> 20} MB at the peak")
        assert relay.metric("outbox_relay_buffer_limit_bytes") == 16 * MEBIBYTE
        assert relay.metric("outbox_relay_inflight_bytes") == 0
        assert relay.metric("outbox_relay_halts_total") == 0
        assert peak < base + 16 * MEBIBYTE + 4 * ROW
        assert relay.terminate(60) == 0
    assert roomy_kafka.high_watermarks("large_row") == {0: 3}
    assert large and [before, after]


def test_a_row_of_100_mb_is_a_pointer_where_limits_are_as_usual(postgres, kafka, capsys):
    outbox = Outbox(postgres, "large_pointer", kafka)
    kafka.create_topic("large_pointer.dead")
    outbox.config["delivery"] = {"on_failure": {"too_large": "dead_letter"},
                                 "dead_letter": {"topic": "large_pointer.dead"}}
    with outbox.relay() as relay:
        relay.wait_streaming()
        [before] = outbox.insert("small")
        outbox.wait_confirmed(relay)
        base = peak_rss(relay)
        large = insert_large_row(outbox)
        [after] = outbox.insert("small")
        outbox.wait_confirmed(relay, deadline_s=120)
        peak = peak_rss(relay)
        report(capsys, f"the same as a pointer: {base >> 20} MB before, {peak >> 20} MB at the peak")
        assert peak < base + 64 * MEBIBYTE + 3 * ROW
        assert relay.terminate(60) == 0
    assert outbox.ids_in_kafka() == [before, after]
    [pointer] = kafka.consume("large_pointer.dead")
    assert pointer.header("outbox-relay-event-id").decode() == large and pointer.value is None


def test_a_row_of_100_mb_halts_by_default_and_the_relay_lives(postgres, kafka):
    outbox = Outbox(postgres, "large_halt", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        insert_large_row(outbox)
        relay.wait_for(lambda: relay.ready()[0] == 503 and "halted" in relay.ready()[1], 120, "the relay is halted")
        assert "message.max.bytes" in relay.ready()[1]
        assert relay.live()[0] == 200


def test_at_full_back_pressure_the_budget_bounds_what_is_held(postgres, kafka, capsys):
    """The queue of librdkafka is made far larger than the budget: it is the budget that holds."""
    outbox = Outbox(postgres, "full_budget", kafka)
    budget = 16 * MEBIBYTE
    with outbox.relay(sink__kafka__properties={"queue.buffering.max.kbytes": 1024 * 1024,
                                               "queue.buffering.max.messages": 1000000},
                      memory__budget="16MiB") as relay:
        relay.wait_streaming()
        outbox.insert("a")
        outbox.wait_confirmed(relay)
        base = peak_rss(relay)
        kafka.pause()
        try:
            for _ in range(10):
                outbox.insert(*range(1000), payload='{"text": "%s"}' % ("x" * 10_000))
            relay.wait_state("blocked")
            held = relay.metric("outbox_relay_inflight_bytes")
            peak = peak_rss(relay)
        finally:
            kafka.resume()
        report(capsys, f"16 MiB of budget: {held / MEBIBYTE:.1f} MiB held, {base >> 20} MB before,"
                       f" {peak >> 20} MB at the peak")
        assert budget <= held < budget + 20_000
        assert peak < base + 3 * budget
        outbox.wait_confirmed(relay, deadline_s=120)
        assert relay.terminate(60) == 0
    assert len(outbox.ids_in_kafka()) == 10_001
