"""The clusters that the Kafka rows share, each started once in a run of the driver."""

import tempfile
from contextlib import contextmanager

from faults.kafka_proxy import KafkaProxy
from support.certificates import Authority
from support.kafka import Kafka
from support.kafka_admin import KafkaAdmin
from support.kafka_listeners import ACCESS_CONTROL, named_listener, proxied_listener, sasl_listener, tls_listener
from support.relay import run_command

NO_AUTO_CREATION = {"auto.create.topics.enable": "false"}
USER, PASSWORD = "relay", "first secret"
HOST = "kafka.test"  # What the NAMED listener tells its clients; no resolver knows it.


@contextmanager
def _authority():
    with tempfile.TemporaryDirectory(prefix="outbox-relay-authority-") as directory:
        yield Authority(directory)


def authority(world):
    return world.servers.get("authority of the Kafka rows", _authority, usable=lambda _: True)


def one(world):
    """One broker that can be come to in every way."""
    def make():
        listeners = [proxied_listener(), sasl_listener({USER: PASSWORD}), named_listener(HOST),
                     tls_listener(authority(world).issue("broker"))]
        return Kafka(settings={**ACCESS_CONTROL, **NO_AUTO_CREATION}, heap="256m", listeners=listeners)
    return world.servers.get("one broker of the Kafka rows", make)


def three(world):
    return world.servers.get("three brokers of the Kafka rows",
                             lambda: Kafka(settings=NO_AUTO_CREATION, brokers=3, heap="256m"))


def admin_of(world, kafka):
    return world.servers.get(("admin", kafka.root), lambda: KafkaAdmin(kafka), usable=lambda _: True)


def proxy_of(world, kafka):
    """In front of the PROXIED listener."""
    return world.servers.get(("proxy", kafka.root), lambda: KafkaProxy(kafka.brokers[0]), usable=lambda _: True)


def prepared(outbox):
    """Its first checkpoint is there, which exactly_once wants."""
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
    return outbox


def through(outbox, listener):
    """The relay comes to the broker by that listener."""
    outbox.config["sink"]["kafka"]["brokers"] = outbox.kafka.addresses(listener)
    return outbox
