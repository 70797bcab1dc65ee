"""One outbox on real servers: a database of its own with the tables of sql/, a slot, a config, and writing to it.

    outbox = Outbox(pg, "shop", kafka)
    with outbox.relay() as relay:
        [event] = outbox.insert("order-7")
        outbox.wait_confirmed(relay)
        assert outbox.ids_in_kafka() == [event]

Publication, slot and topic bear the name of the database. Without Kafka the relay writes to its stdout.
"""

import copy
import uuid
from pathlib import Path

from .relay import RelayProcess, relay_config

SQL = Path(__file__).resolve().parents[2] / "sql"


class Outbox:
    def __init__(self, pg, database, kafka=None, partitions=1, user="postgres", slot=True, **topic):
        self.pg = pg
        self.name = database
        self.kafka = kafka
        pg.create_database(database)
        pg.psql(SQL / "01_outbox_events.sql", db=database)
        pg.sql(f'CREATE PUBLICATION "{database}" FOR TABLE outbox_events WITH (publish = \'insert\')', db=database)
        if slot:
            self.create_slot()
        if kafka is not None:
            kafka.create_topic(database, partitions=partitions, **topic)
        self.config = relay_config(pg, database, kafka, user=user, name=database)
        self.config["defaults"] = {"route": {"topic": database}}

    def create_slot(self, name=None):
        self.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name or self.name])

    def changed_config(self, **changes):
        """The config with `section__key=value` set."""
        config = copy.deepcopy(self.config)
        for path, value in changes.items():
            *sections, key = path.split("__")
            place = config
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
        return config

    def relay(self, **changes):
        """A RelayProcess with that config; wait for the state that the test needs."""
        return RelayProcess(self.changed_config(**changes))

    # Writing

    def sql(self, text, params=None):
        return self.pg.sql(text, params, db=self.name)

    def connect(self, autocommit=False):
        return self.pg.connect(self.name, autocommit=autocommit)

    def insert(self, *keys, payload="{}", connection=None):
        """One event for each key, in one transaction, or in the one that is open on `connection`; their ids."""
        events = [(str(uuid.uuid4()), str(key)) for key in keys]
        if connection is not None:
            write_events(connection, events, payload)
            return [event for event, _ in events]
        with self.connect() as own:
            write_events(own, events, payload)
        own.close()
        return [event for event, _ in events]

    def ids(self):
        """Of all rows that are committed, in no order."""
        return [event for event, in self.sql("SELECT id::text FROM outbox_events")]

    # Where things are

    def slot(self):
        return self.pg.slot(self.name)

    def confirmed(self):
        """What the slot has confirmed, as a number of bytes."""
        return int(self.pg.value("SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots"
                                 " WHERE slot_name = %s", [self.name]))

    def written(self):
        """The end of what is flushed of the write-ahead log, as a number of bytes."""
        return int(self.pg.value("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"))

    def wait_confirmed(self, relay, deadline_s=30):
        """Until everything committed by now is confirmed."""
        end = self.written()
        relay.wait_for(lambda: self.confirmed() >= end, deadline_s, f"the slot {self.name} is confirmed")

    def in_kafka(self, until=None, deadline_s=60):
        return self.kafka.consume(self.name, until=until, deadline_s=deadline_s)

    def ids_in_kafka(self, until=None, deadline_s=60):
        """With repeats, each partition in its order."""
        return [event_id(record) for record in self.in_kafka(until, deadline_s)]

    @staticmethod
    def ids_on_stdout(relay):
        return [line["headers"]["id"] for line in relay.stdout_lines()]

    def wait_on_stdout(self, relay, ids, deadline_s=30):
        relay.wait_for(lambda: set(ids) <= set(self.ids_on_stdout(relay)), deadline_s, "the events are on stdout")


def write_events(connection, events, payload="{}"):
    """(id, key) pairs, into the transaction that is open there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)"
            " SELECT unnest(%s::uuid[]), 'order', unnest(%s::text[]), 'OrderPlaced', %s",
            [[event for event, _ in events], [key for _, key in events], payload])


def event_id(record):
    return record.header("id").decode()
