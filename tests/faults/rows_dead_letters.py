"""Rows 57 and 60 to 63 where the policy is the dead-letter topic: the bad go there, and hold up nobody.

The load goes to one topic, what cannot be delivered to another.
"""

from faults.checker import check
from faults.kafka_clusters import PASSWORD, USER, admin_of, one, through
from faults.kafka_states import wait_progress
from faults.scenario import scenario
from support.steadfast_writer import SteadfastWriter

CLASSES = ("too_large", "invalid_topic", "unknown_topic", "unauthorized", "invalid_record", "unmappable")
BAD_ONES = 5


class DeadLetters:
    """An outbox whose events go to the topic of their type: `order`, which the writers write, and `bad`."""

    def __init__(self, world, bad_topic=None):
        self.world = world
        self.kafka = one(world)
        self.outbox = world.outbox(kafka=self.kafka)
        name = self.outbox.name
        self.good, self.bad, self.dead = f"{name}.order", f"{name}.bad", f"{name}.dead"
        self.kafka.create_topic(self.good, partitions=3)
        self.kafka.create_topic(self.dead, config={"max.message.bytes": "10000000"})
        if bad_topic is not None:
            self.kafka.create_topic(self.bad, config=bad_topic)
        self.outbox.config["defaults"] = {"route": {"topic": f"{name}.${{aggregate_type}}"}, "on_null": {"key": "send"}}
        self.outbox.config["delivery"] = {"on_failure": {each: "dead_letter" for each in CLASSES},
                                          "dead_letter": {"topic": self.dead}}
        self.outbox.sql("ALTER TABLE outbox_events ALTER aggregate_id DROP NOT NULL")

    def insert_bad(self, payload, key):
        [(event,)] = self.outbox.sql(
            "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)"
            " VALUES (gen_random_uuid(), 'bad', %s, 'Bad', %s) RETURNING id::text", [key, payload])
        return event

    def run(self, failure_class, payload="{}", key="bad", properties=None):
        properties = {"topic.metadata.propagation.max.ms": 1000, **(properties or {})}
        with self.outbox.relay(sink__kafka__properties=properties) as relay:
            bad = []
            with SteadfastWriter(self.outbox, self.world.seed) as writer:
                for _ in range(BAD_ONES * self.world.cycles):
                    wait_progress(relay, 30)
                    bad.append(self.insert_bad(payload, key))
                wait_progress(relay, 30)
            self.outbox.wait_confirmed(relay, 60)
            assert relay.metric("outbox_relay_halts_total") == 0, "nothing was held up"
            assert relay.metric("outbox_relay_dead_lettered_total", reason=failure_class) == len(bad)
            assert relay.terminate() == 0
        letters = self.kafka.consume(self.dead)
        headers = [{name: value.decode() for name, value in letter.headers} for letter in letters]
        found = [each.get("id") or each["outbox-relay-event-id"] for each in headers]
        assert sorted(set(found)) == sorted(bad), f"{len(found)} letters for {len(bad)} bad events"
        assert {each["outbox-relay-class"] for each in headers} == {failure_class}
        text = check(writer, self.kafka.consume(self.good)).assert_kept()
        return f"{len(bad)} bad events, {len(letters)} letters; {text}"


@scenario(row=57, title="dead letters: the topic is missing")
def missing_topic_dead_lettered(world):
    return DeadLetters(world).run("unknown_topic")


@scenario(row=60, title="dead letters: no right to the topic")
def unauthorized_dead_lettered(world):
    letters = DeadLetters(world, bad_topic={})
    through(letters.outbox, "SASL")
    admin_of(world, letters.kafka).allow_writing(USER, letters.good, letters.dead)
    # Seen, or it would be a topic that does not exist.
    admin_of(world, letters.kafka).allow(USER, "TOPIC", letters.bad, "DESCRIBE")
    return letters.run("unauthorized", properties={"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                                                   "sasl.username": USER, "sasl.password": PASSWORD})


@scenario(row=61, title="dead letters: over the topic's limit")
def over_topic_limit_dead_lettered(world):
    return DeadLetters(world, {"max.message.bytes": "20000"}).run("too_large", '{"text": "%s"}' % ("x" * 100_000))


@scenario(row=62, title="dead letters: over the producer's limit, so that a pointer has to do")
def over_producer_limit_dead_lettered(world):
    return DeadLetters(world, {}).run("too_large", '{"text": "%s"}' % ("x" * 1_500_000))


@scenario(row=63, title="dead letters: no key for a compacted topic")
def no_key_dead_lettered(world):
    return DeadLetters(world, {"cleanup.policy": "compact"}).run("invalid_record", key=None)
