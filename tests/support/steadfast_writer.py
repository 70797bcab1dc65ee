"""Writers that go on whatever happens to the server, and what they know of each transaction afterwards.

    with SteadfastWriter(outbox, seed, writers=2) as writer:
        ...
    writer.committed, writer.unknown, writer.rolled_back

Each writer owns its keys and numbers the events of each, so the order of the commits of one key is known without
asking the server. A COMMIT that was sent and never answered is `unknown`.
"""

import random
import threading
import time
import uuid
from dataclasses import dataclass

import psycopg2

from .outbox import write_events


@dataclass(frozen=True)
class Written:
    id: str
    key: str
    sequence: int


class SteadfastWriter:
    def __init__(self, outbox, seed, writers=2, keys=10, rows=3, rows_per_second=200, rollbacks=0.1):
        self._outbox = outbox
        self._rows, self._rows_per_second, self._rollbacks = rows, rows_per_second, rollbacks
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._problems = []
        self.committed, self.unknown, self.rolled_back = [], [], []
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}-{number}"),
                                                     [f"key-{number}-{index}" for index in range(keys)]))
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

    def _run(self, chance, keys):
        try:
            self._write(chance, {key: 0 for key in keys})
        except Exception as problem:  # Raised again where the writing ends.
            self._problems.append(problem)

    def _write(self, chance, sequences):
        connection, started, written = None, time.monotonic(), 0
        while not self._stop.is_set():
            try:
                if connection is None or connection.closed:
                    connection = self._outbox.connect()
            except psycopg2.OperationalError:
                self._stop.wait(0.1)  # The server is away.
                continue
            written += self._one_transaction(connection, chance, sequences)
            self._stop.wait(max(0, started + written / self._rows_per_second - time.monotonic()))
        if connection is not None:
            connection.close()

    def _one_transaction(self, connection, chance, sequences):
        events = []
        for _ in range(chance.randint(1, self._rows)):
            key = chance.choice(list(sequences))
            sequences[key] += 1
            events.append(Written(str(uuid.UUID(int=chance.getrandbits(128), version=4)), key, sequences[key]))
        outcome = self.rolled_back
        try:
            write_events(connection, [(event.id, event.key) for event in events])
            if chance.random() < self._rollbacks:
                connection.rollback()
            else:
                outcome = self.unknown  # From here on, until the answer is there.
                connection.commit()
                outcome = self.committed
        except psycopg2.Error:
            connection.close()
        with self._lock:
            outcome += events
        return len(events)
