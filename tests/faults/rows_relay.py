"""Rows 1 to 13: the relay is killed, stopped, frozen, doubled, starved."""

import threading

from faults.checker import check
from faults.confirmations import Confirmations
from faults.proxy import Proxy, postgres_tap
from faults.scenario import AT_LEAST_ONCE, EXACTLY_ONCE, scenario
from support.load import transactions_of
from support.relay import run_command
from support.steadfast_writer import SteadfastWriter


def init(outbox):
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
    return outbox


def pause(world, least, most):
    """The moment of the next fault, at random."""
    threading.Event().wait(world.chance.uniform(least, most))


def killed_again_and_again(world, mode):
    pg, kafka = world.pg(15), world.kafka()
    outbox = world.outbox(pg, kafka, partitions=3, mode=mode)
    if mode == EXACTLY_ONCE:
        init(outbox)
    witness = outbox.name + "_witness"
    outbox.create_slot(witness)
    confirmations = Confirmations(kafka, outbox.name)
    proxy = world.enter(Proxy((pg.host, pg.port), on_up=postgres_tap(confirmations.on_status)))
    outbox.config["source"] |= {"host": "127.0.0.1", "port": proxy.port}
    kills = 20 * world.cycles
    with outbox.relay(source__libpq={"options": "-c wal_sender_timeout=900ms"}) as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for _ in range(kills):
                relay.wait_state("streaming", 30)
                pause(world, 0, 0.6)
                relay.kill9()
                relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    records = outbox.in_kafka(deadline_s=120)
    verdict = check(writer, records, duplicates=0 if mode == EXACTLY_ONCE else None)
    verdict.findings.append(confirmations.check(transactions_of(outbox, witness), records))
    return f"{kills} kills; {verdict.assert_kept()}"


@scenario(row=1, title="kill -9 under load, again and again")
def relay_killed(world):
    return killed_again_and_again(world, AT_LEAST_ONCE)


@scenario(row=1, title="kill -9 under load, again and again", mode=EXACTLY_ONCE)
def relay_killed_exactly_once(world):
    return killed_again_and_again(world, EXACTLY_ONCE)


@scenario(row=2, title="SIGTERM under load with a healthy Kafka repeats nothing")
def relay_stopped(world):
    outbox = world.outbox(partitions=3)
    stops = 5 * world.cycles
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed, rows=20, rows_per_second=2000) as writer:
            for _ in range(stops):
                relay.wait_state("streaming")
                pause(world, 0, 0.5)
                assert relay.terminate() == 0, relay.stderr()
                relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    return f"{stops} stops; {check(writer, outbox.in_kafka(), duplicates=0).assert_kept()}"


@scenario(row=3, title="SIGTERM with Kafka dead: gives up at its grace with 75, confirms nothing")
def relay_stopped_without_kafka(world):
    kafka = world.kafka()
    outbox = world.outbox(kafka=kafka)
    with outbox.relay(shutdown__grace="1s") as relay:
        relay.wait_streaming()
        outbox.wait_confirmed(relay)
        kafka.pause()
        try:
            before = outbox.confirmed()
            events = outbox.insert(*range(100))
            end = outbox.written()
            relay.wait_for(lambda: relay.metric("outbox_relay_inflight_events") > 0, 20, "records are on the way")
            assert relay.terminate() == 75
            assert before <= outbox.confirmed() < end
        finally:
            kafka.resume()
        relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    assert set(outbox.ids_in_kafka()) == set(events)
    return "75 at the grace, nothing confirmed, all delivered after the restart"


@scenario(row=4, title="SIGSTOP for longer than wal_sender_timeout, then CONT")
def relay_frozen(world):
    pg = world.pg(15, wal_sender_timeout="1s")
    outbox = world.outbox(pg, partitions=3)
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for _ in range(2 * world.cycles):
                relay.wait_state("streaming")
                pause(world, 0.2, 0.6)
                relay.pause()
                relay.wait_for(lambda: not outbox.slot()["active"], 20, "the server has given up the walsender")
                relay.resume()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    return check(writer, outbox.in_kafka()).assert_kept()
