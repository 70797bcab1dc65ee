"""A relay that is stopped and started again: no duplicate, and everything it sent is confirmed (A6, A12)."""

import random
import threading
import time

from support.load import Load, transactions_of
from support.outbox import Outbox, event_id

STOPS = 20
GRACE_S = 20
SEED = random.SystemRandom().randrange(1 << 32)


def test_a_clean_restart_repeats_nothing_and_a_kill_only_what_was_not_confirmed(postgres, kafka):
    """Case A6."""
    outbox = Outbox(postgres, "restarted", kafka)
    with outbox.relay() as relay:
        relay.wait_streaming()
        events = [outbox.insert(number)[0] for number in range(100)]
        assert outbox.ids_in_kafka(until=100) == events
        assert relay.terminate() == 0
        relay.start().wait_streaming()
        events += outbox.insert("after")
        outbox.wait_confirmed(relay)
        assert outbox.ids_in_kafka() == events

        relay.kill9()
        relay.start().wait_streaming()
        events += outbox.insert("after the kill")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == events


def test_a_run_too_short_for_the_confirmation_under_load_confirms_what_it_delivered(postgres, kafka):
    outbox = Outbox(postgres, "short_run", kafka)
    events = outbox.insert("early")
    with outbox.relay() as relay:
        assert outbox.ids_in_kafka(until=1) == events
        assert relay.terminate() == 0
        relay.start().wait_streaming()
        events += outbox.insert("late")
        outbox.wait_confirmed(relay)
    assert outbox.ids_in_kafka() == events


def test_twenty_stops_under_ten_thousand_rows_a_second_repeat_nothing(postgres, kafka):
    """Case A12."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    outbox = Outbox(postgres, "stopped", kafka, partitions=3)
    outbox.create_slot("stopped_witness")
    states, slowest = [], 0
    with outbox.relay(shutdown__grace=f"{GRACE_S}s") as relay:
        with Load(outbox, SEED, rows=100, rows_per_second=10_000):
            for _ in range(STOPS):
                relay.wait_streaming()
                threading.Event().wait(chance.uniform(0, 0.5))  # The moment of the stop, at random.
                started = time.monotonic()
                assert relay.terminate(GRACE_S + 10) == 0, relay.stderr()
                slowest = max(slowest, time.monotonic() - started)
                states.append((outbox.confirmed(), kafka.high_watermarks("stopped")))
                relay.start()
        outbox.wait_confirmed(relay, deadline_s=90)
        assert relay.terminate() == 0
    committed = transactions_of(outbox, "stopped_witness")
    end_lsn = {event: each.end_lsn for each in committed for event, _ in each.events}
    records = outbox.in_kafka()
    print(f"{len(records)} events, slowest stop {slowest:.2f} s")

    assert slowest < GRACE_S
    assert sorted(event_id(record) for record in records) == sorted(end_lsn)
    for confirmed, watermarks in states:
        # Whatever had been delivered was confirmed when the relay had gone, and the other way round.
        for record in records:
            delivered = record.offset < watermarks[record.partition]
            assert delivered == (end_lsn[event_id(record)] <= confirmed)
