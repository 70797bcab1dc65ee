"""Rows 60 to 67 and 70: rights, limits, certificates, passwords, quotas and names."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

from faults.kafka_clusters import HOST, PASSWORD, USER, admin_of, authority, one, through
from faults.kafka_states import delivered, stop_whole, wait_halted, wait_progress
from faults.named_hosts import NamedHosts
from faults.scenario import KnownGap, scenario
from support.certificates import Authority
from support.outbox import event_id
from support.postgres import Postgres
from support.postgres_tls import demand_tls, show_certificate
from support.steadfast_writer import SteadfastWriter

# A refused producer must not be waited for longer than a scenario lasts.
READY_WITHIN = {"http__unready_after": "1s"}


@contextmanager
def temporary_directory():
    with tempfile.TemporaryDirectory(prefix="outbox-relay-access-") as directory:
        yield Path(directory)


def secret_file(path, text):
    """As whoever rotates secrets does it: another file takes the place of the old one."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    os.replace(fresh, path)
    return str(path)


def restart(kafka):
    """Every connection to it has to be made anew."""
    kafka.kill()
    kafka.start()


@scenario(row=60, title="the right to one topic of several revoked: halts, the others stay in order, resumes when granted")
def right_revoked(world):
    kafka = one(world)
    admin = admin_of(world, kafka)
    outbox = through(world.outbox(kafka=kafka), "SASL")
    other = f"{outbox.name}.other"
    kafka.create_topic(other)
    admin.allow_writing(USER, outbox.name, other)
    outbox.config["defaults"] = {"route": {"topic": "${aggregate_id}"}}
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER,
                  "sasl.password": PASSWORD, "topic.metadata.refresh.interval.ms": 1000}
    written = {outbox.name: [], other: []}

    def write(turns):
        for turn in range(turns):
            topic = other if turn % 3 == 2 else outbox.name
            written[topic] += outbox.insert(topic, topic)

    with outbox.relay(sink__kafka__properties=properties) as relay:
        for _ in range(world.cycles):
            write(30)
            outbox.wait_confirmed(relay)
            admin.revoke_writing(USER, other)
            write(30)
            wait_halted(relay, outbox, other, "kafka-acls.sh")
            assert PASSWORD not in relay.stderr()
            admin.allow_writing(USER, other)
            outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    for topic, events in written.items():
        arrived = [event_id(record) for record in kafka.consume(topic)]
        assert list(dict.fromkeys(arrived)) == events, f"{topic}: {len(arrived)} arrived of {len(events)}, or out of order"
        assert len(arrived) == len(events), f"{len(arrived) - len(events)} repeats in {topic}"
    return f"{sum(map(len, written.values()))} events in two topics, in order, none twice"


@scenario(row=61, title="a record over the topic's limit among many: halts at it, loses no neighbour, flows once it may")
def record_over_topic_limit(world):
    kafka = one(world)
    outbox = world.outbox(kafka=kafka)
    kafka.alter_topic_config(outbox.name, {"max.message.bytes": "50000"})
    with outbox.relay() as relay:
        relay.wait_streaming()
        # Together far over the limit, each alone far below it.
        events = outbox.insert(*(f"key-{number % 7}" for number in range(500)), payload='{"text": "%s"}' % ("x" * 300))
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_halts_total") == 0, "no record is blamed for the size of its batch"
        before = outbox.insert(*range(100))
        large = outbox.insert("large", payload='{"text": "%s"}' % ("x" * 200_000))
        after = outbox.insert(*range(100))
        wait_halted(relay, outbox, outbox.name, "max.message.bytes")
        kafka.alter_topic_config(outbox.name, {"max.message.bytes": "1000000"})
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    arrived = outbox.ids_in_kafka()
    assert sorted(set(arrived)) == sorted(events + before + large + after)
    return f"{len(events) + 201} events, {len(arrived) - len(set(arrived))} repeats"


@scenario(row=62, title="a record over the producer's limit: halts, and flows after a restart with a larger one")
def record_over_producer_limit(world):
    outbox = world.outbox(kafka=one(world))
    with outbox.relay(sink__kafka__properties={"message.max.bytes": 100_000}) as relay:
        before = outbox.insert(*range(50))
        large = outbox.insert("large", payload='{"text": "%s"}' % ("x" * 200_000))
        after = outbox.insert(*range(50))
        wait_halted(relay, outbox, outbox.name, "message.max.bytes")
        assert relay.terminate() in (0, 75)
    with outbox.relay() as relay:
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    arrived = outbox.ids_in_kafka()
    assert list(dict.fromkeys(arrived)) == before + large + after
    return f"101 events in order, {len(arrived) - 101} repeats"


@scenario(row=63, title="no key for a compacted topic, a time that the topic refuses: halts, flows once it may")
def record_refused(world):
    kafka = one(world)
    outbox = world.outbox(kafka=kafka, config={"cleanup.policy": "compact"})
    with outbox.relay(outbox=[{"route": {"key": "${event_type}"}, "on_null": {"key": "send"}}]) as relay:
        before = outbox.insert(*range(50))
        outbox.sql("ALTER TABLE outbox_events ALTER event_type DROP NOT NULL")
        [(null_key,)] = outbox.sql(
            "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)"
            " VALUES (gen_random_uuid(), 'order', 'x', NULL, '{}') RETURNING id::text")
        after = outbox.insert(*range(50))
        wait_halted(relay, outbox, outbox.name, "cleanup.policy")
        kafka.alter_topic_config(outbox.name, {"cleanup.policy": "delete"})
        outbox.wait_confirmed(relay, 60)
        # Every commit is in the past; an hour's grace is far more than any of these needs.
        kafka.alter_topic_config(outbox.name, {"message.timestamp.before.max.ms": "0"})
        too_late = outbox.insert(*range(10))
        wait_halted(relay, outbox, outbox.name)
        kafka.alter_topic_config(outbox.name, {"message.timestamp.before.max.ms": "3600000"})
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    arrived = outbox.ids_in_kafka()
    assert sorted(set(arrived)) == sorted([*before, null_key, *after, *too_late])
    return f"111 events, {len(arrived) - 111} repeats"


def refused_until(world, relay, outbox, mend, *words):
    """Events written meanwhile wait, it says why and is unready; `mend` lets them go."""
    said = len(relay.stderr())
    outbox.insert(*range(10))
    relay.wait_for(lambda: all(word in relay.stderr()[said:] for word in words), 40, f"it says {words}")
    relay.wait_for(lambda: relay.ready()[0] == 503, 20, "it is unready")
    assert relay.live()[0] == 200
    mend()
    outbox.wait_confirmed(relay, 60)
    relay.wait_for(lambda: relay.ready()[0] == 200, 20, "it is ready")


@scenario(row=64, title="the broker's certificate expired, of another host, of another authority: refused until it is mended")
def broker_certificate(world):
    kafka = one(world)
    ours = authority(world)
    directory = world.enter(temporary_directory())
    another = Authority(directory, "another")
    trusted = directory / "trusted.pem"
    trusted.write_text(ours.certificate.read_text())
    outbox = through(world.outbox(kafka=kafka), "TLS")
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(trusted),
                  "ssl.endpoint.identification.algorithm": "https"}

    def show(certificate):
        kafka.set_certificate("TLS", certificate)
        restart(kafka)

    try:
        with outbox.relay(sink__kafka__properties=properties, **READY_WITHIN) as relay:
            outbox.insert(*range(10))
            outbox.wait_confirmed(relay)
            for bad in (ours.issue("expired", expired=True), ours.issue("elsewhere", hosts=["elsewhere.test"])):
                show(bad)
                refused_until(world, relay, outbox, lambda: show(ours.issue("rotated")), "certificate")
            show(another.issue("broker"))
            refused_until(world, relay, outbox, lambda: trusted.write_text(another.certificate.read_text()), "certificate")
            assert relay.terminate() == 0
    finally:
        kafka.set_certificate("TLS", ours.issue("broker"))
        restart(kafka)
    assert sorted(set(outbox.ids_in_kafka())) == sorted(outbox.ids())
    return "each refused with the reason; gone on with after the mending, in the same process"


@scenario(row=65, title="PostgreSQL's certificate expired, of another authority: refused until it is mended")
def postgres_certificate(world):
    directory = world.enter(temporary_directory())
    ours, another = Authority(directory, "ours"), Authority(directory, "another")
    trusted = directory / "trusted.pem"
    trusted.write_text(ours.certificate.read_text())
    pg = world.enter(Postgres(15))
    show_certificate(pg, ours.issue("postgres"))
    demand_tls(pg)
    outbox = world.outbox(pg, one(world))
    outbox.config["source"] |= {"host": pg.host, "libpq": {"sslmode": "verify-full", "sslrootcert": str(trusted)}}

    def refused(relay, mend):
        pg.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        refused_until(world, relay, outbox, mend, "certificate verify failed")

    with outbox.relay(**READY_WITHIN) as relay:
        outbox.insert(*range(10))
        outbox.wait_confirmed(relay)
        show_certificate(pg, ours.issue("expired", expired=True))
        refused(relay, lambda: show_certificate(pg, ours.issue("rotated")))
        show_certificate(pg, another.issue("postgres"))
        refused(relay, lambda: trusted.write_text(another.certificate.read_text()))
        assert relay.terminate() == 0
    assert sorted(outbox.ids_in_kafka()) == sorted(outbox.ids())
    return "each refused with the reason; gone on with after the mending, in the same process"


@scenario(row=66, title="the SASL password rotated: refused until the file has the new one, without a restart")
def password_rotated(world):
    kafka = one(world)
    admin = admin_of(world, kafka)
    directory = world.enter(temporary_directory())
    outbox = through(world.outbox(kafka=kafka), "SASL")
    admin.allow_writing(USER, outbox.name)
    second = "second secret"
    password_file = directory / "password"
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER,
                  "sasl.password_file": secret_file(password_file, PASSWORD)}
    try:
        with outbox.relay(sink__kafka__properties=properties, **READY_WITHIN) as relay:
            outbox.insert(*range(10))
            outbox.wait_confirmed(relay)
            kafka.set_users("SASL", {USER: second})
            restart(kafka)
            refused_until(world, relay, outbox, lambda: secret_file(password_file, second), "uthentication")
            assert relay.terminate() == 0
            log = relay.stderr()
    finally:
        kafka.set_users("SASL", {USER: PASSWORD})
        restart(kafka)
    assert PASSWORD not in log and second not in log
    assert sorted(set(outbox.ids_in_kafka())) == sorted(outbox.ids())
    return "refused with the reason; gone on with after the rotation, in the same process; no secret in the log"


@scenario(row=67, title="throttled by a quota: slower, no failure, a metric shows it")
def throttled(world):
    kafka = one(world)
    admin = admin_of(world, kafka)
    outbox = world.outbox(kafka=kafka)
    client = f"relay-{outbox.name}"
    admin.limit_producer(client, 10_000)
    try:
        with outbox.relay(sink__kafka__properties={"client.id": client}) as relay:
            with SteadfastWriter(outbox, world.seed, rows_per_second=300) as writer:
                relay.wait_for(lambda: len(writer.committed) - delivered(relay) > 1000, 60, "it falls behind")
                wait_progress(relay, 30)
                behind = len(writer.committed) - delivered(relay)
                measured = any("throttle" in sample and value > 0 for sample, value in relay.metrics().items())
            admin.limit_producer(client, None)
            text = stop_whole(outbox, relay, writer, deadline_s=120)
    finally:
        admin.limit_producer(client, None)
    if not measured:
        raise KnownGap(f"no metric shows that a quota throttles; otherwise it holds: {text}, {behind:.0f} behind meanwhile")
    return f"{text}; {behind:.0f} behind while throttled"


@scenario(row=70, title="the broker's name unknown, then of another address: asked again until it is right")
def name_changes(world):
    kafka = one(world)
    outbox = through(world.outbox(kafka=kafka), "NAMED")
    hosts = world.enter(NamedHosts())
    with hosts.relay(outbox, **READY_WITHIN) as relay:
        relay.wait_streaming()
        refused_until(world, relay, outbox, lambda: hosts.set({HOST: "127.0.0.1"}), "Failed to resolve")
        hosts.set({HOST: "127.0.0.99"})
        restart(kafka)
        refused_until(world, relay, outbox, lambda: hosts.set({HOST: "127.0.0.1"}), "127.0.0.99")
        assert relay.terminate() == 0
    arrived = outbox.ids_in_kafka()
    assert sorted(arrived) == sorted(outbox.ids())
    return f"{len(arrived)} events, each once"
