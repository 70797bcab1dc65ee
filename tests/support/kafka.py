"""A private Apache Kafka in KRaft mode on free loopback ports.

    with Kafka() as kafka:
        kafka.create_topic("orders", partitions=3)
        kafka.produce("orders", key=b"7", value=b"{}")
        [record] = kafka.consume("orders", until=1)

One broker unless told otherwise; each also is a controller. The jars are fetched by
tests/support/fetch_servers.sh kafka.
"""

import atexit
import subprocess
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from .kafka_broker import Broker, java
from .kafka_listeners import plain_users
from .kafka_reader import KafkaReader
from .process import make_directory, remove_directory
from .wait import eventually

QUIET_CLIENT = {"log_level": 2}  # A broker that a test stops is no news.


class Kafka:
    """Created formatted and stopped; `start()` or `with` starts it, `close()` removes everything.

    `settings` are server properties of every broker; `listeners` are ways in beside the plain one, see
    kafka_listeners.py.
    """

    def __init__(self, settings=None, brokers=1, heap="512m", listeners=()):
        self.root = make_directory("kafka")
        atexit.register(self.close)
        self.brokers = Broker.cluster(self.root, brokers, settings or {}, heap, listeners)
        self._producer = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    @property
    def bootstrap(self):
        """What goes into `brokers:` of a config, as one text."""
        return ",".join(broker.address for broker in self.brokers)

    def addresses(self, listener):
        """The same for another listener, as a list."""
        return [broker.advertised_address(listener) for broker in self.brokers]

    def set_certificate(self, listener, certificate):
        """What a TLS listener shows after the next start."""
        for broker in self.brokers:
            broker.write_store(f"{listener}.pem", certificate.together())

    def set_users(self, listener, users):
        """Whom a SASL listener lets in after the next start, with which passwords."""
        name = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
        for broker in self.brokers:
            broker.change_properties({name: plain_users(users)})

    # Starting and stopping, all brokers at once; for one, use kafka.brokers[i].

    @property
    def running(self):
        return all(broker.running for broker in self.brokers)

    def start(self, deadline_s=90):
        for broker in self.brokers:
            broker.start()
        return self.wait_ready(deadline_s)

    def stop(self, deadline_s=60):
        """SIGTERM; the same ports and data at the next start."""
        for broker in self.brokers:
            broker.terminate()
        for broker in self.brokers:
            broker.wait_stopped(deadline_s)

    def kill(self):
        for broker in self.brokers:
            broker.kill()

    def restart(self, deadline_s=90):
        self.stop()
        return self.start(deadline_s)

    def pause(self):
        """SIGSTOP: connections stay open and nothing answers."""
        for broker in self.brokers:
            broker.pause()

    def resume(self):
        for broker in self.brokers:
            broker.resume()

    def close(self):
        atexit.unregister(self.close)
        self._producer = None
        self.kill()
        remove_directory(self.root)

    def wait_ready(self, deadline_s=90):
        """Until every started broker is a member that clients see."""
        started = sum(broker.running for broker in self.brokers)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET_CLIENT})

        def all_are_members():
            try:
                return len(admin.list_topics(timeout=1).brokers) >= started
            except KafkaException as problem:
                raise ConnectionError(str(problem)) from problem

        def check_running():
            for broker in self.brokers:
                broker.check_running()

        eventually(all_are_members, deadline_s, lambda: "Kafka answers; its log ends with:\n"
                   + self.brokers[0].log_tail(), poll_s=0.05, unless=check_running)
        return self

    # Topics

    def create_topic(self, name, partitions=1, config=None, replication=None):
        """Returns once it can be produced to."""
        topic = NewTopic(name, partitions, replication or len(self.brokers), config=config or {})
        admin = self._admin()  # Held until its future is done: its end would cancel the request.
        admin.create_topics([topic], operation_timeout=30)[name].result(timeout=30)
        eventually(lambda: self._leaders(name) == partitions, 30, f"topic {name} has its leaders")

    def delete_topic(self, name):
        admin = self._admin()
        admin.delete_topics([name], operation_timeout=30)[name].result(timeout=30)
        eventually(lambda: name not in self.topics(), 30, f"topic {name} is gone")

    def alter_topic_config(self, name, config):
        """Replaces the topic's own settings by `config`."""
        resource = ConfigResource("topic", name, set_config=config)
        admin = self._admin()
        admin.alter_configs([resource])[resource].result(timeout=30)

    def topics(self):
        """Name to number of partitions, without Kafka's own."""
        found = self._admin().list_topics(timeout=10).topics
        return {name: len(topic.partitions) for name, topic in found.items()
                if not name.startswith("__")}

    # Who holds a partition, as brokers

    def leader(self, topic, partition):
        """None while there is none."""
        return self._broker(self._partition(topic, partition).leader)

    def replicas(self, topic, partition):
        return [self._broker(number) for number in self._partition(topic, partition).replicas]

    def in_sync(self, topic, partition):
        return [self._broker(number) for number in self._partition(topic, partition).isrs]

    def wait_replicated(self, topic, deadline_s=60):
        """Until every replica of every partition is in sync."""
        def all_in_sync():
            partitions = self._metadata(topic).partitions.values()
            return all(len(each.isrs) == len(each.replicas) and each.leader >= 0 for each in partitions)
        eventually(all_in_sync, deadline_s, f"all replicas of {topic} are in sync")

    def _broker(self, number):
        return next((broker for broker in self.brokers if broker.node_id == number), None)

    def _partition(self, topic, partition):
        return self._metadata(topic).partitions[partition]

    def _metadata(self, topic):
        try:
            return self._admin().list_topics(topic, timeout=10).topics[topic]
        except KafkaException as problem:
            raise ConnectionError(str(problem)) from problem

    # Records

    def produce(self, topic, key=None, value=None, headers=None, partition=None, deadline_s=30):
        """One record, acknowledged by all replicas when this returns."""
        self.produce_all([(topic, key, value, headers, partition)], deadline_s)

    def produce_all(self, records, deadline_s=60):
        """Tuples (topic, key, value, headers, partition); all are acknowledged when this returns."""
        problems = []
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all",
                                       "linger.ms": 0, "partitioner": "murmur2_random",
                                       **QUIET_CLIENT})
        for topic, key, value, headers, partition in records:
            chosen = {} if partition is None else {"partition": partition}
            while True:
                try:
                    self._producer.produce(
                        topic, value, key, headers=headers, **chosen,
                        on_delivery=lambda error, _: error and problems.append(error))
                    break
                except BufferError:
                    self._producer.poll(0.1)
        left = self._producer.flush(deadline_s)
        if left or problems:
            raise RuntimeError(f"{left} records unacknowledged after {deadline_s} s, failed: {problems[:3]}")

    def java_partitions(self, topic, keys):
        """Key to the partition that Kafka's own Java producer sends it to; keys are texts."""
        done = subprocess.run(
            java(Path(__file__).with_name("JavaProducer.java"), self.bootstrap, topic, heap="128m"),
            input="".join(f"{key}\n" for key in keys).encode(), capture_output=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"the Java producer failed: {done.stderr.decode(errors='replace')}")
        pairs = (line.rsplit("\t", 1) for line in done.stdout.decode().splitlines())
        return {key: int(partition) for key, partition in pairs}

    def reader(self, topics, isolation="read_committed"):
        """A KafkaReader from the beginning of these topics; use it in a `with` statement."""
        return KafkaReader(self.bootstrap, topics, isolation)

    def consume(self, topics, until=None, deadline_s=30, isolation="read_committed"):
        """The records from the beginning until `until`, see KafkaReader.read."""
        with self.reader(topics, isolation) as reader:
            return reader.read(until, deadline_s)

    def high_watermarks(self, topic):
        """Partition to the offset after its last record, of transactions that are still open too."""
        with self.reader([], isolation="read_uncommitted") as reader:
            return {partition: reader.high_watermark(topic, partition)
                    for partition in range(self.topics()[topic])}

    def _admin(self):
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET_CLIENT})

    def _leaders(self, name):
        topic = self._admin().list_topics(timeout=10).topics.get(name)
        return sum(p.leader >= 0 for p in topic.partitions.values()) if topic else 0
