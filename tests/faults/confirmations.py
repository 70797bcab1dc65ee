"""I5: at every moment, what is confirmed is acknowledged.

Each standby status update that passes the proxy is held until Kafka's high watermarks have been taken. An event whose
transaction ends at or before the position that the update flushes has to lie below them.
"""

import threading

from support.outbox import event_id

from .checker import Finding


class Confirmations:
    def __init__(self, kafka, topic):
        self._kafka, self._topic = kafka, topic
        self._lock = threading.Lock()
        self._highest = 0
        self.seen = []  # (flushed LSN, high watermark of each partition), where the position moved.

    def on_status(self, flushed):
        with self._lock:
            if flushed <= self._highest:
                return
            self._highest = flushed
        self.seen.append((flushed, self._kafka.high_watermarks(self._topic)))

    def check(self, transactions, records):
        """`transactions`: with their end_lsn and events, from a witness slot."""
        end_lsn = {event: each.end_lsn for each in transactions for event, _ in each.events}
        first = {}
        for record in records:
            first.setdefault(event_id(record), record)
        placed = sorted(((end_lsn[event], record) for event, record in first.items() if event in end_lsn),
                        key=lambda pair: pair[0])
        for flushed, watermarks in self.seen:
            for end, record in placed:
                if end > flushed:
                    break
                if record.offset >= watermarks[record.partition]:
                    return Finding("I5", False, f"{flushed:X} was confirmed when event {event_id(record)}, which ends at "
                                   f"{end:X}, was not acknowledged")
        return Finding("I5", True, f"{len(self.seen)} confirmations covered")
