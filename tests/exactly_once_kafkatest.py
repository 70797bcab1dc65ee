"""Exactly once: a read_committed consumer sees every event once, in order per key, whatever was killed."""

import os
import random
import threading
import time
from collections import defaultdict

import pytest

from support.load import Load, transactions_of
from support.outbox import Outbox, event_id
from support.postgres import Postgres
from support.relay import run_command
from support.steadfast_writer import SteadfastWriter

FLAP_SECONDS = float(os.environ.get("EXACTLY_ONCE_SECONDS", 40))  # Of everything being killed at random.
SEED = random.SystemRandom().randrange(1 << 32)


def exactly_once(postgres, kafka, name, **more):
    outbox = Outbox(postgres, name, kafka, **more)
    outbox.config["delivery"] = {"guarantee": "exactly_once"}
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
    return outbox


def committed_ids(outbox):
    return [event_id(record) for record in outbox.in_kafka()]


def test_events_arrive_once_and_the_slot_is_confirmed(postgres, kafka):
    outbox = exactly_once(postgres, kafka, "once")
    with outbox.relay() as relay:
        relay.wait_streaming()
        first = outbox.insert("a", "b")
        outbox.wait_confirmed(relay)
        second = outbox.insert("a")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        relay.start()
        relay.wait_streaming()
        third = outbox.insert("b")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert committed_ids(outbox) == first + second + third


def test_without_a_first_checkpoint_it_refuses(postgres, kafka):
    outbox = Outbox(postgres, "uninitialised", kafka)
    outbox.config["delivery"] = {"guarantee": "exactly_once"}
    with outbox.relay() as relay:
        assert relay.wait_exit(30) == 78
        assert "outbox-relay init" in relay.stderr()


@pytest.mark.parametrize("partitions", [3])
def test_kills_at_random_leave_each_event_once(postgres, kafka, partitions):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    outbox = exactly_once(postgres, kafka, "killed_once", partitions=partitions)
    outbox.create_slot("witness_once")
    with outbox.relay() as relay:
        with Load(outbox, SEED, writers=2, rows=3, rows_per_second=300):
            for _ in range(12):
                relay.wait_streaming()
                threading.Event().wait(chance.uniform(0, 1.0))
                relay.kill9()
                relay.start()
        outbox.wait_confirmed(relay, deadline_s=60)
        assert relay.terminate() == 0
    committed, arrived = defaultdict(list), defaultdict(list)
    for transaction in transactions_of(outbox, "witness_once"):
        for event, key in transaction.events:
            committed[key].append(event)
    for record in outbox.in_kafka():
        arrived[record.key.decode()].append(event_id(record))
    assert arrived == committed


def test_a_standby_does_not_fence_the_relay_that_holds_the_slot(postgres, kafka):
    outbox = exactly_once(postgres, kafka, "standby_once")
    with outbox.relay() as relay, outbox.relay() as spare:
        active, waiting = wait_for_roles(relay, spare)
        first = outbox.insert("a")
        outbox.wait_confirmed(active)
        waiting.wait_state("standby")
        second = outbox.insert("a")
        outbox.wait_confirmed(active)
        assert active.metric("outbox_relay_source_reconnects_total", reason="fenced") == 0
        active.kill9()
        waiting.wait_streaming()
        third = outbox.insert("a")
        outbox.wait_confirmed(waiting)
        assert waiting.terminate() == 0
    assert committed_ids(outbox) == first + second + third


def wait_for_roles(relay, spare):
    def streaming():
        return [each for each in (relay, spare) if each.metric("outbox_relay_up_state", state="streaming") == 1]
    relay.wait_for(lambda: len(streaming()) == 1, 30, "one of the two streams")
    active = streaming()[0]
    return active, spare if active is relay else relay


def test_a_zombie_that_wakes_up_after_another_has_taken_over_adds_nothing(postgres, kafka):
    outbox = exactly_once(postgres, kafka, "zombie", partitions=3)
    with outbox.relay() as zombie:
        zombie.wait_streaming()
        outbox.wait_confirmed(zombie)
        kafka.pause()
        held = outbox.insert(*range(50))
        zombie.wait_for(lambda: zombie.metric("outbox_relay_inflight_events") > 0, 20, "records are on the way")
        zombie.pause()
        kafka.resume()
        postgres.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'zombie'")
        with outbox.relay() as successor:
            successor.wait_streaming()
            more = outbox.insert(*range(20))
            outbox.wait_confirmed(successor)
            zombie.resume()
            zombie.wait_state("standby", 60)
            last = outbox.insert("end")
            outbox.wait_confirmed(successor)
            assert successor.terminate() == 0
        zombie.wait_streaming(60)
        assert zombie.terminate() == 0
    assert sorted(committed_ids(outbox)) == sorted(held + more + last)


@pytest.mark.parametrize("rows", [300_000])
def test_a_large_transaction_outlives_a_short_transaction_timeout(postgres, kafka, rows):
    outbox = exactly_once(postgres, kafka, "large_once", partitions=3)
    with outbox.relay(sink__kafka__properties={"transaction.timeout.ms": 15000}) as relay:
        relay.wait_streaming()
        outbox.sql("INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)"
                   " SELECT gen_random_uuid(), 'order', n %% 100, 'placed', '{}' FROM generate_series(1, %s) n", [rows])
        relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") > rows / 4, 120, "a part of it is sent")
        relay.kill9()
        relay.start()
        outbox.wait_confirmed(relay, deadline_s=240)
        sent_again = relay.metric("outbox_relay_events_total", outcome="delivered")
        assert relay.terminate() == 0
    assert sent_again < rows, "what the checkpoint covered was not sent again"
    ids = committed_ids(outbox)
    assert len(ids) == rows and set(ids) == set(outbox.ids())


def test_two_relays_on_one_cluster_do_not_touch_each_other(postgres, kafka):
    left, right = exactly_once(postgres, kafka, "left_once"), exactly_once(postgres, kafka, "right_once")
    with left.relay() as one, right.relay() as other:
        one.wait_streaming()
        other.wait_streaming()
        expected = {"left": [], "right": []}
        for number in range(20):
            expected["left"] += left.insert(number)
            expected["right"] += right.insert(number)
        left.wait_confirmed(one)
        right.wait_confirmed(other)
        assert one.terminate() == 0 and other.terminate() == 0
    assert committed_ids(left) == expected["left"] and committed_ids(right) == expected["right"]


def test_a_crash_of_the_server_repeats_nothing(kafka):
    for version in (15, 18):
        with Postgres(version) as server:
            outbox = exactly_once(server, kafka, f"crashed_{version}")
            with outbox.relay() as relay:
                relay.wait_streaming()
                events = [outbox.insert(number)[0] for number in range(30)]
                outbox.wait_confirmed(relay)
                server.restart("immediate")
                relay.wait_streaming(60)
                events += outbox.insert("after")
                outbox.wait_confirmed(relay)
                relay.kill9()
                server.restart("immediate")
                relay.start()
                relay.wait_streaming(60)
                events += outbox.insert("last")
                outbox.wait_confirmed(relay)
                assert relay.terminate() == 0
            assert committed_ids(outbox) == events


def test_a_stop_in_the_middle_aborts_at_once_instead_of_stalling_readers(postgres, kafka):
    """The grace is too short for the transaction: what it had sent is aborted, and read_committed goes on."""
    outbox = exactly_once(postgres, kafka, "stopped_once")
    with outbox.relay(shutdown__grace="1ms") as relay:
        relay.wait_streaming()
        with outbox.connect() as connection:
            events = outbox.insert(*range(5000), connection=connection)
        connection.close()
        assert relay.terminate() in (0, 75)
        relay.start().wait_streaming()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    assert committed_ids(outbox) == events


def test_writers_relay_and_server_are_killed_at_random_and_each_event_arrives_once(kafka):
    """Writers lose their connections, the relay its life, PostgreSQL its postmaster; now and then Kafka stops for a while."""
    print(f"seed {SEED}, {FLAP_SECONDS:.0f} s")
    chance = random.Random(SEED)
    deeds = defaultdict(int)
    with Postgres(15) as server:
        outbox = exactly_once(server, kafka, "flapping", partitions=3)
        with outbox.relay() as relay, SteadfastWriter(outbox, SEED) as writer:
            end = time.monotonic() + FLAP_SECONDS
            while time.monotonic() < end:
                threading.Event().wait(chance.uniform(0, 2))  # The moment of the deed, at random.
                deed = chance.choices(["relay", "server", "connections", "broker"], [5, 2, 2, 1])[0]
                deeds[deed] += 1
                if deed == "relay":
                    relay.kill9()
                    relay.start()
                elif deed == "server":
                    server.kill()
                    server.start()
                elif deed == "connections":
                    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                               " WHERE datname = 'flapping' AND pid <> pg_backend_pid()")
                else:
                    kafka.pause()
                    threading.Event().wait(chance.uniform(0, 1))
                    kafka.resume()
        with_relay_until_all_is_confirmed(outbox)
        arrived = outbox.in_kafka(deadline_s=120)
    check_each_once(writer, arrived)
    print(f"{len(arrived)} events, each once; {len(writer.unknown)} commits without an answer; {dict(deeds)}")


def with_relay_until_all_is_confirmed(outbox):
    with outbox.relay() as relay:
        relay.wait_streaming(60)
        outbox.wait_confirmed(relay, deadline_s=120)
        assert relay.terminate() == 0


def check_each_once(writer, arrived):
    known = {event.id: event for event in writer.committed + writer.unknown}
    ids = [event_id(record) for record in arrived]
    assert len(ids) == len(set(ids)), "an event arrived twice"
    assert {event.id for event in writer.committed} <= set(ids), "a committed event is missing"
    assert set(ids) <= set(known), "an event arrived that was not committed"
    last = defaultdict(int)
    for record in arrived:
        event = known[event_id(record)]
        assert event.sequence > last[event.key], f"{event} arrived after number {last[event.key]} of its key"
        last[event.key] = event.sequence
