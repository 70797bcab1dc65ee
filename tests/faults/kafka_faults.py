"""What is done to three brokers while events flow."""

from faults.kafka_clusters import admin_of
from faults.kafka_states import wait_progress


def kill_each(world, kafka, outbox, relay):
    for broker in kafka.brokers * world.cycles:
        wait_progress(relay)
        broker.kill()
        wait_progress(relay)
        broker.start()
        kafka.wait_replicated(outbox.name)


def freeze_leader(world, kafka, outbox, relay):
    """Each time until another leads."""
    for _ in range(2 * world.cycles):
        wait_progress(relay)
        leader = kafka.leader(outbox.name, 0)
        leader.pause()
        try:
            relay.wait_for(lambda frozen=leader: kafka.leader(outbox.name, 0) not in (None, frozen), 30, "another leads")
        finally:
            leader.resume()
        kafka.wait_replicated(outbox.name)


def flap_leader(world, kafka, outbox, relay):
    admin = admin_of(world, kafka)
    ids = [broker.node_id for broker in kafka.replicas(outbox.name, 0)]
    for turn in range(1, 6 * world.cycles + 1):
        wait_progress(relay, 30)
        order = ids[turn % 3:] + ids[:turn % 3]
        admin.move_leader(outbox.name, 0, order)
        relay.wait_for(lambda first=order[0]: kafka.leader(outbox.name, 0).node_id == first, 30, "it leads")
