"""One outbox whose table, config and databases a test shapes as it likes; `outbox.py` has the plain one of sql/.

    box = ShapedOutbox(pg, ddl=f"CREATE TABLE outbox_events ({COLUMNS}, extra text)")
    with box.relay() as relay:
        event = box.insert(aggregate_id="7", payload='{"a": 1}')
        box.wait_ids(relay, [event])
"""

import itertools
import uuid

from psycopg2 import sql

from .relay import RelayProcess, relay_config, run_command

_numbers = itertools.count(1)

COLUMNS = """
  id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregate_type text        NOT NULL DEFAULT 'order',
  aggregate_id   text        DEFAULT '1',
  event_type     text        DEFAULT 'OrderPlaced',
  payload        jsonb       DEFAULT '{}'"""


class ShapedOutbox:
    """`ddl` makes its tables; with `initialise=False` the publication and the slot are left to the test.

    Database, publication and slot share one name, and topics begin with it. `config` is there to be changed.
    """

    def __init__(self, pg, kafka=None, ddl=f"CREATE TABLE outbox_events ({COLUMNS})", table=None,
                 initialise=True):
        self.pg = pg
        self.name = pg.create_database(f"box_{next(_numbers)}_{uuid.uuid4().hex[:6]}")
        self.table = table or {"schema": "public", "name": "outbox_events"}
        self.config = relay_config(pg, self.name, kafka, name=self.name, table=dict(self.table))
        self.config["defaults"] = {"route": {"topic": self.name + ".${aggregate_type}"}}
        self.sql(ddl)
        if initialise:
            self.init()

    def init(self):
        code, _, stderr = self.command("init")
        assert code == 0, stderr

    def command(self, *arguments, **more):
        """(exit code, stdout, stderr) of a one-shot command."""
        return run_command(arguments, self.config, **more)

    def relay(self, **more):
        return RelayProcess(self.config, **more)

    def sql(self, text, params=None):
        return self.pg.sql(text, params, db=self.name)

    def value(self, text, params=None):
        return self.pg.value(text, params, db=self.name)

    def connect(self, **more):
        return self.pg.connect(db=self.name, **more)

    def insert(self, cursor=None, table=None, **columns):
        """One row with these columns, on its own or in the cursor's transaction; its id, as text."""
        target = sql.Identifier(self.table["schema"], table or self.table["name"])
        what = sql.SQL("DEFAULT VALUES")
        if columns:
            what = sql.SQL("({}) VALUES ({})").format(
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(sql.Placeholder() * len(columns)))
        text = sql.SQL("INSERT INTO {} {} RETURNING id::text").format(target, what)
        if cursor is None:
            return self.value(text, list(columns.values()))
        cursor.execute(text, list(columns.values()))
        return cursor.fetchone()[0]

    def confirmed(self):
        """The slot's confirmed position as a number."""
        return int(self.pg.value("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
                                 " WHERE slot_name = %s", [self.name]))

    def wal_end(self):
        return int(self.pg.value("SELECT pg_current_wal_lsn() - '0/0'"))

    def wait_confirmed(self, relay, deadline_s=20):
        end = self.wal_end()
        relay.wait_for(lambda: self.confirmed() >= end, deadline_s, f"{end} is confirmed")

    @staticmethod
    def ids(relay):
        """The header `id` of what the stdout sink wrote since the RelayProcess was made, in its order."""
        return [line["headers"].get("id") for line in relay.stdout_lines()]

    def wait_ids(self, relay, ids, deadline_s=20):
        """Until so many have been written; they are exactly these, in this order."""
        relay.wait_for(lambda: len(self.ids(relay)) >= len(ids), deadline_s, f"{len(ids)} events are written")
        assert self.ids(relay) == ids
