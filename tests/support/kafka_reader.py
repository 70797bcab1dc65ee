"""Reads topics from their beginning, without a consumer group, until a condition holds."""

import re
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_REFRESH_S = 0.2


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list  # of (name, bytes or None), in the order on the wire
    timestamp: int  # milliseconds since 1970

    def header(self, name):
        """The value of the last header of that name, None when there is none."""
        return dict(self.headers).get(name)


class KafkaReader:
    """`topics`: a name, a list of names, or a pattern that begins with "^". They may come later.

    Whatever was read stays in `records`, each partition in its own order.
    """

    def __init__(self, bootstrap, topics, isolation="read_committed"):
        self._wanted = [topics] if isinstance(topics, str) else list(topics)
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "unused",  # Demanded by the client; nothing is committed to it.
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
        })
        self._assigned = set()
        self._at_end = set()
        self._refreshed = None
        self.records = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._consumer.close()

    def read(self, until=None, deadline_s=30):
        """Reads on until `until` holds and returns all records read so far.

        `until` is a number of records, or a function of the list of records. Without it, reads to
        the end that each topic has by then; the topics must exist.
        """
        deadline = time.monotonic() + deadline_s
        while not self._done(until):
            if time.monotonic() >= deadline:
                raise TimeoutError(self._what_is_missing(until, deadline_s))
            self._assign_new_partitions()
            for message in self._consumer.consume(1000, timeout=0.05):
                self._take(message)
        return list(self.records)

    def read_more(self, timeout_s):
        """Whatever arrives within that time, for claims that nothing more does."""
        already = len(self.records)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._assign_new_partitions()
            for message in self._consumer.consume(1000, timeout=0.05):
                self._take(message)
        return self.records[already:]

    def high_watermark(self, topic, partition):
        return self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]

    def _done(self, until):
        if until is None:
            named = {name for name in self._wanted if not name.startswith("^")}
            return (bool(self._assigned) and self._assigned <= self._at_end
                    and named <= {topic for topic, _ in self._assigned})
        if callable(until):
            return until(self.records)
        return len(self.records) >= until

    def _take(self, message):
        place = (message.topic(), message.partition())
        error = message.error()
        if error is None:
            self._at_end.discard(place)
            self.records.append(Record(
                topic=message.topic(), partition=message.partition(), offset=message.offset(),
                key=message.key(), value=message.value(), headers=message.headers() or [],
                timestamp=message.timestamp()[1]))
        elif error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(place)
        elif not _passes_by_itself(error):
            raise KafkaException(error)

    def _assign_new_partitions(self):
        now = time.monotonic()
        if self._refreshed is not None and now - self._refreshed < _REFRESH_S:
            return
        self._refreshed = now
        try:
            metadata = self._consumer.list_topics(timeout=1)
        except KafkaException:
            return  # The broker is stopped or paused; the deadline of `read` decides.
        new = {(name, partition) for name, topic in metadata.topics.items()
               if self._wants(name) for partition in topic.partitions} - self._assigned
        if new:
            self._consumer.incremental_assign([TopicPartition(t, p, 0) for t, p in sorted(new)])
            self._assigned |= new

    def _wants(self, name):
        return any(re.match(wanted, name) if wanted.startswith("^") else wanted == name
                   for wanted in self._wanted)

    def _what_is_missing(self, until, deadline_s):
        wanted = "the end" if until is None else (
            f"{until} records" if isinstance(until, int) else "the condition")
        last = self.records[-1] if self.records else None
        return (f"{self._wanted}: {wanted} not reached within {deadline_s} s; "
                f"{len(self.records)} records came, the last: {last}")


def _passes_by_itself(error):
    return error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN,
                            KafkaError._TIMED_OUT, KafkaError.LEADER_NOT_AVAILABLE,
                            KafkaError.NOT_LEADER_FOR_PARTITION,
                            KafkaError.UNKNOWN_TOPIC_OR_PART) or error.retriable()
