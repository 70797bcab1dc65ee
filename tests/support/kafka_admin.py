"""Access rights, quotas, partitions and leaders of a running Kafka.

    with KafkaAdmin(kafka) as admin:
        admin.allow("relay", "TOPIC", "orders", "WRITE")

One JVM that KafkaAdmin.java turns into a conversation, since each start of one takes seconds.
"""

import subprocess
from pathlib import Path

from . import reaper
from .kafka_broker import java


class KafkaAdmin:
    """Speaks through the plain listener, whose user must be allowed to: see kafka_listeners.ACCESS_CONTROL."""

    def __init__(self, kafka):
        self._popen = subprocess.Popen(
            java(Path(__file__).with_name("KafkaAdmin.java"), kafka.bootstrap, heap="96m"), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        reaper.look_after_process(self._popen.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._popen.stdin.close()
        self._popen.kill()
        self._popen.wait(10)
        self._popen.stdout.close()
        reaper.forget_process(self._popen.pid)

    def allow(self, user, resource_type, name, operation):
        """Such as ("relay", "TOPIC", "orders", "WRITE"); the cluster's name is "kafka-cluster"."""
        self._ask("allow", user, resource_type, name, operation)

    def revoke(self, user, resource_type, name, operation):
        self._ask("revoke", user, resource_type, name, operation)

    def allow_writing(self, user, *topics):
        """All that a producer needs."""
        for topic in topics:
            for operation in ("DESCRIBE", "WRITE"):
                self.allow(user, "TOPIC", topic, operation)

    def revoke_writing(self, user, *topics):
        for topic in topics:
            for operation in ("DESCRIBE", "WRITE"):
                self.revoke(user, "TOPIC", topic, operation)

    def limit_producer(self, client_id, bytes_per_second):
        """None takes the limit away."""
        self._ask("quota", client_id, "none" if bytes_per_second is None else bytes_per_second)

    def set_partitions(self, topic, count):
        self._ask("partitions", topic, count)

    def move_leader(self, topic, partition, broker_ids):
        """The first of `broker_ids`, all of which must be replicas already, becomes the leader."""
        self._ask("replicas", topic, partition, ",".join(map(str, broker_ids)))
        self._ask("elect", topic, partition, unless="ElectionNotNeeded")

    def _ask(self, *words, unless=None):
        self._popen.stdin.write("\t".join(map(str, words)) + "\n")
        answer = self._popen.stdout.readline().rstrip("\n")
        if answer != "ok" and not (unless and unless in answer):
            raise RuntimeError(f"{words[0]}: {answer or 'the program ended'}")
