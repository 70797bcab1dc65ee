"""Rows 50, 51, 54, 56 and 69 with Kafka transactions: whatever the brokers go through, each event is read once."""

from faults.kafka_clusters import one, prepared, proxy_of, three, through
from faults.kafka_faults import flap_leader, freeze_leader, kill_each
from faults.kafka_proxy import END_TXN, PRODUCE, RESET, SWALLOW
from faults.kafka_states import stop_whole, wait_progress
from faults.scenario import EXACTLY_ONCE, scenario
from support.steadfast_writer import SteadfastWriter


def while_it_flows(world, kafka, outbox, fault, properties=None):
    with outbox.relay(sink__kafka__properties=properties or {}) as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            fault(world, kafka, outbox, relay)
            wait_progress(relay, 30, deadline_s=120)
        return stop_whole(outbox, relay, writer, duplicates=0, deadline_s=120)


def on_three_brokers(world, fault):
    kafka = three(world)
    outbox = prepared(world.outbox(kafka=kafka, mode=EXACTLY_ONCE))
    return while_it_flows(world, kafka, outbox, fault)


@scenario(row=50, mode=EXACTLY_ONCE, title="each of three brokers killed and brought back in turn")
def rolling_kills_exactly_once(world):
    return on_three_brokers(world, kill_each)


@scenario(row=51, mode=EXACTLY_ONCE, title="the leader frozen until another leads, and thawed, again and again")
def frozen_leader_exactly_once(world):
    return on_three_brokers(world, freeze_leader)


@scenario(row=54, mode=EXACTLY_ONCE, title="the leader moves again and again")
def flapping_leader_exactly_once(world):
    return on_three_brokers(world, flap_leader)


def answers_lost(proxy, api_key):
    def fault(world, _kafka, _outbox, relay):
        for verdict in (SWALLOW, RESET) * world.cycles:
            wait_progress(relay, 30, deadline_s=120)
            proxy.damage_next(api_key, lambda _, verdict=verdict: verdict)
    return fault


def with_answers_lost(world, api_key):
    kafka = one(world)
    fault = answers_lost(proxy_of(world, kafka), api_key)
    outbox = prepared(through(world.outbox(kafka=kafka, mode=EXACTLY_ONCE), "PROXIED"))
    return while_it_flows(world, kafka, outbox, fault, {"socket.timeout.ms": 1000})


@scenario(row=56, mode=EXACTLY_ONCE, title="the answer to a produce request lost, or cut off")
def produce_unanswered_exactly_once(world):
    return with_answers_lost(world, PRODUCE)


@scenario(row=69, mode=EXACTLY_ONCE, title="the answer to a commit lost, or cut off: nothing torn, nothing twice")
def commit_unanswered(world):
    return with_answers_lost(world, END_TXN)
