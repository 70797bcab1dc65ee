"""Rows 49 to 59 and 68: what brokers, their network and their topics do to the relay."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

from faults.kafka_clusters import admin_of, one, proxy_of, three, through
from faults.kafka_faults import flap_leader, freeze_leader, kill_each
from faults.kafka_proxy import PRODUCE, RESET, Replace, framed
from faults.kafka_states import (cpu_share, delivered, rss_bytes, stop_whole, wait_halted, wait_progress,
                                 wait_written)
from faults.scenario import scenario
from support.kafka import Kafka
from support.outbox import event_id
from support.steadfast_writer import SteadfastWriter
from support.tmpfs import small_disk
from support.wait import eventually

IMPATIENT = {"topic.metadata.propagation.max.ms": 1000}


@scenario(row=49, title="all brokers stopped: back-pressure, flat memory, PostgreSQL alive, catch-up in order")
def all_brokers_stopped(world):
    kafka = one(world)
    outbox = world.outbox(kafka=kafka, partitions=3)
    small_queue = {"queue.buffering.max.messages": 500}
    with outbox.relay(sink__kafka__properties=small_queue) as relay:
        with SteadfastWriter(outbox, world.seed, rows_per_second=400) as writer:
            wait_progress(relay)
            kafka.kill()
            try:
                relay.wait_for(lambda: relay.metric("outbox_relay_up_state", state="blocked") == 1, 30, "it is blocked")
                memory = rss_bytes(relay.pid)
                share = cpu_share(relay.pid, seconds=3)
                # What was acknowledged before the kill is confirmed by now.
                confirmed = outbox.confirmed()
                assert share < 0.05, f"a blocked relay waits, it does not spin: {share}"
                wait_written(relay, writer, 500 * world.cycles)
                assert outbox.slot()["active"] and relay.live()[0] == 200
                assert outbox.confirmed() == confirmed
                grown = rss_bytes(relay.pid) - memory
                assert grown < 16 * 2**20, f"memory has grown by {grown}"
            finally:
                kafka.start()
            wait_progress(relay, 500)
        return stop_whole(outbox, relay, writer)


def on_three_brokers(world, fault, partitions=1, duplicates=0):
    kafka = three(world)
    outbox = world.outbox(kafka=kafka, partitions=partitions)
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            fault(world, kafka, outbox, relay)
            wait_progress(relay)
        return stop_whole(outbox, relay, writer, duplicates=duplicates)


@scenario(row=50, title="each of three brokers killed and brought back in turn: no report fails")
def rolling_kills(world):
    return on_three_brokers(world, kill_each, partitions=3)


@scenario(row=51, title="the leader frozen until another leads, and thawed, again and again: no gap")
def frozen_leader(world):
    return on_three_brokers(world, freeze_leader)


@scenario(row=52, title="a broker's disk is full: tried again until there is room")
def full_disk(world):
    large = world.enter(temporary_directory())
    disk = world.enter(small_disk(world.enter(temporary_directory()) / "small", megabytes=48))
    kafka = world.enter(Kafka(heap="256m", settings={"log.dirs": f"{large},{disk.path}", "metadata.log.dir": large}))
    outbox = world.outbox(kafka=kafka, partitions=4)
    eventually(lambda: list(disk.path.glob(f"{outbox.name}-*")), 20, "some partitions lie on the small disk")
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            wait_progress(relay)
            ballast = disk.fill()
            [broker] = kafka.brokers
            relay.wait_for(lambda: "No space left" in broker.log_text(), 30, "the disk is full")
            wait_written(relay, writer, 200)
            assert relay.live()[0] == 200
            ballast.unlink()
            kafka.kill()
            kafka.start()
            wait_progress(relay)
        return stop_whole(outbox, relay, writer)


@contextmanager
def temporary_directory():
    with tempfile.TemporaryDirectory(prefix="outbox-relay-disk-") as directory:
        yield Path(directory)


@scenario(row=53, title="too few replicas in sync: tried again until there are enough")
def too_few_replicas(world):
    kafka = three(world)
    outbox = world.outbox(kafka=kafka, replication=2, config={"min.insync.replicas": "2"})
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            wait_progress(relay)
            broker = world.chance.choice(kafka.replicas(outbox.name, 0))
            broker.kill()
            try:
                relay.wait_for(lambda: len(kafka.in_sync(outbox.name, 0)) == 1, 30, "one replica is left")
                acknowledged = delivered(relay)
                wait_written(relay, writer)
                assert delivered(relay) == acknowledged, "nothing is acknowledged by one replica alone"
            finally:
                broker.start()
            wait_progress(relay, 300)
        return stop_whole(outbox, relay, writer)


@scenario(row=54, title="the leader moves again and again: order kept, duplicates counted")
def flapping_leader(world):
    return on_three_brokers(world, flap_leader, duplicates=None)


@scenario(row=55, title="a broker a second away, below and above socket.timeout.ms: slower, no loss")
def slow_broker(world):
    kafka = one(world)
    proxy = proxy_of(world, kafka)
    outbox = through(world.outbox(kafka=kafka), "PROXIED")
    texts = []
    with SteadfastWriter(outbox, world.seed) as writer:
        for timeout_ms in (3000, 500):
            with outbox.relay(sink__kafka__properties={"socket.timeout.ms": timeout_ms}) as relay:
                wait_progress(relay, 30)
                with proxy.slowed(1.0, PRODUCE):
                    if timeout_ms > 1000:
                        wait_progress(relay, 30)
                    else:
                        proxy.wait_connections(2)
                    wait_written(relay, writer)
                wait_progress(relay, 300)
                assert relay.metric("outbox_relay_events_failed_total") == 0
                assert relay.terminate() == 0
    with outbox.relay() as relay:
        return stop_whole(outbox, relay, writer)


def damaged_answers(world, damages, duplicates):
    kafka = one(world)
    proxy = proxy_of(world, kafka)
    outbox = through(world.outbox(kafka=kafka), "PROXIED")
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for damage in damages * (2 * world.cycles):
                wait_progress(relay, 30)
                proxy.damage_next(PRODUCE, damage)
            wait_progress(relay, 30)
        return stop_whole(outbox, relay, writer, duplicates=duplicates)


@scenario(row=56, title="the broker's answers cut off and cut short: connected again, nothing twice")
def broken_answers(world):
    def cut_off(_):
        return RESET

    def cut_short(frame):
        return Replace(framed(frame)[:world.chance.randrange(4, len(frame))], reset=True)

    return damaged_answers(world, [cut_off, cut_short], duplicates=0)


@scenario(row=56, title="the broker's answers turned into garbage: connected again, no event is blamed")
def garbage_answers(world):
    def garbage(frame):
        return Replace(framed(world.chance.randbytes(len(frame))), reset=True)

    def garbage_behind_its_number(frame):
        return Replace(framed(frame[:4] + world.chance.randbytes(len(frame) - 4)), reset=True)

    def huge(_):
        return Replace(b"\x7f\xff\xff\xff" + bytes(100), reset=True)

    # Where another producer is made, the broker cannot know what it has already.
    return damaged_answers(world, [garbage, garbage_behind_its_number, huge], duplicates=1000 * world.cycles)


@scenario(row=57, title="the topic missing at start and taken away in the middle: halts, flows once it is made")
def missing_topic(world):
    kafka = one(world)
    outbox = world.outbox(kafka=kafka)
    kafka.delete_topic(outbox.name)
    with outbox.relay(sink__kafka__properties=IMPATIENT) as relay:
        for _ in range(1 + world.cycles):
            events = outbox.insert(*(f"key-{number % 7}" for number in range(50)))
            wait_halted(relay, outbox, outbox.name, "kafka-topics.sh")
            confirmed = outbox.confirmed()
            kafka.create_topic(outbox.name)
            outbox.wait_confirmed(relay, 60)
            assert outbox.confirmed() > confirmed
            arrived = outbox.ids_in_kafka()
            assert arrived == events, f"{len(arrived)} of {len(events)} arrived, or in another order"
            kafka.delete_topic(outbox.name)
        assert relay.terminate() == 0
    return f"{1 + world.cycles} times: halted with what to type, then all 50 in order"


@scenario(row=58, title="the topic deleted and made anew while the relay runs: what comes later is whole and in order")
def topic_made_anew(world):
    kafka = one(world)
    outbox = world.outbox(kafka=kafka)
    with outbox.relay(sink__kafka__properties=IMPATIENT) as relay:
        for _ in range(2 + world.cycles):
            events = [outbox.insert(f"key-{number % 7}")[0] for number in range(50)]
            outbox.wait_confirmed(relay, 60)
            arrived = outbox.ids_in_kafka()
            assert arrived == events, f"{len(arrived)} of {len(events)} arrived, or in another order"
            kafka.delete_topic(outbox.name)
            kafka.create_topic(outbox.name)
        assert relay.terminate() == 0
    return f"{2 + world.cycles} times, 50 events each, in order"


@scenario(row=59, title="partitions added while it flows: nothing lost, order kept within each, and it warns")
def partitions_added(world):
    kafka = one(world)
    outbox = world.outbox(kafka=kafka)
    with outbox.relay(sink__kafka__properties={"topic.metadata.refresh.interval.ms": 500}) as relay:
        ids = [outbox.insert("key")[0] for _ in range(20)]
        outbox.wait_confirmed(relay)
        admin_of(world, kafka).set_partitions(outbox.name, 3)

        def all_are_used():
            ids.extend(outbox.insert(*(f"key-{number}" for number in range(20))))
            return all(kafka.high_watermarks(outbox.name).values())

        relay.wait_for(all_are_used, 30, "all partitions are used")
        outbox.wait_confirmed(relay)
        log = relay.stderr()
        assert relay.terminate() == 0
    arrived = outbox.in_kafka()
    assert sorted(event_id(record) for record in arrived) == sorted(ids)
    place = {event: number for number, event in enumerate(ids)}
    for partition in range(3):
        mine = [place[event_id(record)] for record in arrived if record.partition == partition]
        assert mine == sorted(mine)
    assert "has 3 partitions and had 1" in log, "nothing warns that keys have moved to other partitions"
    return f"{len(ids)} events, none lost, each partition in order, a warning"


@scenario(row=68, title="a sequence out of order ends the producer: another is made, and it goes on")
def fatal_producer(world):
    kafka = one(world)
    proxy = proxy_of(world, kafka)
    outbox = through(world.outbox(kafka=kafka), "PROXIED")
    out_of_order = 45

    def refuse(frame):
        # A response to Produce: correlation id u32, one topic, its name, how many partitions, partition i32, error i16.
        after_name = frame.index(outbox.name.encode()) + len(outbox.name)
        legacy_count = frame[after_name:after_name + 4] == b"\x00\x00\x00\x01"
        at = after_name + (4 if legacy_count else 1) + 4
        return Replace(framed(frame[:at] + out_of_order.to_bytes(2, "big") + frame[at + 2:]))

    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for turn in range(1, 2 * world.cycles + 1):
                wait_progress(relay, 30)
                proxy.damage_next(PRODUCE, refuse)
                relay.wait_for(lambda wanted=turn: rebuilds(relay) >= wanted, 30, "another producer is made")
            wait_progress(relay, 30)
        # What the broker had written before its answer was changed comes again.
        return stop_whole(outbox, relay, writer, duplicates=1000 * world.cycles)


def rebuilds(relay):
    return relay.metric("outbox_relay_source_reconnects_total", reason="sink_broken") or 0
