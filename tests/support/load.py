"""Writers that commit and roll back events while a test does other things, and what exactly they committed."""

import random
import struct
import threading
import time
import uuid
from dataclasses import dataclass

from .outbox import write_events


@dataclass(frozen=True)
class Transaction:
    end_lsn: int
    events: list  # of (id, key)


class Load:
    """Runs inside `with`. One transaction in ten is rolled back.

    `rows` a transaction, and at most `rows_per_second` from each writer; without it, as many as it can.
    """

    def __init__(self, outbox, seed, writers=1, rows=1, rows_per_second=None, keys=20):
        self._outbox = outbox
        self._rows = rows
        self._rows_per_second = rows_per_second
        self._keys = keys
        self._stop = threading.Event()
        self._problems = []
        self._threads = [threading.Thread(target=self._write, args=(f"{seed}-{number}",))
                         for number in range(writers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._problems:
            raise self._problems[0]

    def _write(self, seed):
        chance = random.Random(seed)
        started, written = time.monotonic(), 0
        connection = self._outbox.connect()
        try:
            while not self._stop.is_set():
                events = [(str(uuid.UUID(int=chance.getrandbits(128), version=4)), f"key-{chance.randrange(self._keys)}")
                          for _ in range(self._rows)]
                write_events(connection, events)
                if chance.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    written += len(events)
                if self._rows_per_second:
                    self._stop.wait(max(0, started + written / self._rows_per_second - time.monotonic()))
        except Exception as problem:  # Raised again where the load ends.
            self._problems.append(problem)
        finally:
            connection.close()


def transactions_of(outbox, slot):
    """What was committed since that slot was made, oldest first, by PostgreSQL's own account."""
    rows = outbox.sql("SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL,"
                      " 'proto_version', '1', 'publication_names', %s)", [slot, f'"{outbox.name}"'])
    found, events = [], []
    for data, in rows:
        message = bytes(data)
        if message[:1] == b"I":
            values = _tuple_of(message[6:])
            events.append((values[0], values[2]))
        elif message[:1] == b"C":
            end_lsn, = struct.unpack_from("!Q", message, 10)
            if events:
                found.append(Transaction(end_lsn, events))
            events = []
    return found


def _tuple_of(data):
    count, = struct.unpack_from("!H", data)
    at, values = 2, []
    for _ in range(count):
        kind, at = data[at:at + 1], at + 1
        if kind == b"t":
            size, = struct.unpack_from("!I", data, at)
            values.append(data[at + 4:at + 4 + size].decode())
            at += 4 + size
        else:
            values.append(None)
    return values
