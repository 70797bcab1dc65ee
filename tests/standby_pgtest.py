"""Several relays on one slot: one streams, the others stand by, say so, and take over without a gap (C2, F12)."""

import time
from contextlib import ExitStack

from support.outbox import Outbox


def test_a_second_relay_stands_by_and_says_so(postgres):
    outbox = Outbox(postgres, "stand_by")
    with outbox.relay() as first:
        first.wait_streaming()
        with outbox.relay() as second:
            second.wait_state("standby").wait_ready()
            holder = postgres.walsender_pid(outbox.name)
            assert f"in use by PID {holder}" in second.stderr()
            outbox.wait_on_stdout(first, outbox.insert("1"))
            assert second.metric("outbox_relay_source_connected") == 0
            assert second.terminate() == 0
        assert postgres.walsender_pid(outbox.name) == holder


def test_the_standby_takes_over_within_two_seconds_of_the_slot_coming_free(postgres):
    outbox = Outbox(postgres, "take_over")
    with outbox.relay() as first, outbox.relay() as second:
        active, spare = (first, second) if streams(first, second) is first else (second, first)
        spare.wait_state("standby")
        outbox.wait_on_stdout(active, outbox.insert("before"))
        outbox.wait_confirmed(active)
        active.pause()
        held_back = outbox.insert("1", "2") + outbox.insert("3")
        held_by = postgres.walsender_pid(outbox.name)
        active.kill9()
        spare.wait_for(lambda: postgres.walsender_pid(outbox.name) != held_by, 10, "the slot is free")
        free = time.monotonic()
        spare.wait_streaming(10)
        took = time.monotonic() - free
        print(f"took over after {took:.2f} s")
        assert took < 2
        outbox.wait_on_stdout(spare, held_back)
        assert outbox.ids_on_stdout(spare) == held_back


def test_a_relay_stopped_by_a_signal_hands_over_without_a_repeat(postgres):
    outbox = Outbox(postgres, "hand_over")
    with outbox.relay() as first, outbox.relay() as second:
        active, spare = (first, second) if streams(first, second) is first else (second, first)
        spare.wait_state("standby")
        before = [outbox.insert(number)[0] for number in range(20)]
        outbox.wait_on_stdout(active, before)
        assert active.terminate() == 0
        after = outbox.insert("after")
        outbox.wait_on_stdout(spare, after)
        assert outbox.ids_on_stdout(active) == before and outbox.ids_on_stdout(spare) == after


def test_three_replicas_send_each_row_once(postgres):
    """Case F12."""
    outbox = Outbox(postgres, "replicas")
    with ExitStack() as stack:
        relays = [stack.enter_context(outbox.relay()) for _ in range(3)]
        active = streams(*relays)
        for spare in relays:
            if spare is not active:
                spare.wait_state("standby")
        events = [outbox.insert(number % 3)[0] for number in range(300)]
        outbox.wait_on_stdout(active, events)
        outbox.wait_confirmed(active)
        assert [event for relay in relays for event in outbox.ids_on_stdout(relay)] == events


def streams(*relays):
    """The one of them that does."""
    relays[0].wait_for(lambda: any(relay.metric("outbox_relay_up_state", state="streaming") for relay in relays), 30,
                       "one of the relays streams")
    return next(relay for relay in relays if relay.metric("outbox_relay_up_state", state="streaming"))
