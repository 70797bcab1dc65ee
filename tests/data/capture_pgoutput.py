"""Captures what PostgreSQL's pgoutput really sends: `python3 tests/data/capture_pgoutput.py` writes pgoutput_VERSION.hex.

One message a line: its LSN, then its bytes in hex. Run it again when a new version of PostgreSQL is added.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from support.postgres import Postgres  # noqa: E402

SET_UP = [
    """CREATE TABLE outbox_events (id int PRIMARY KEY, aggregate_type text, aggregate_id text, event_type text,
       payload jsonb)""",
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    "CREATE TABLE other (n int PRIMARY KEY, m mood)",
    "CREATE PUBLICATION p FOR TABLE outbox_events, other",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
]
TRAFFIC = [
    """INSERT INTO outbox_events VALUES (1, 'orders', 'order-7', 'placed', '{"total": 12.50, "note": "grüße"}')""",
    "INSERT INTO outbox_events VALUES (2, 'orders', '', NULL, NULL), (3, 'orders', 'order-8', 'paid', '[]')",
    "INSERT INTO outbox_events VALUES (4, 'orders', 'big', 'x', to_jsonb(repeat('0123456789', 40)))",
    "UPDATE outbox_events SET event_type = 'sent' WHERE id = 1",
    "DELETE FROM outbox_events WHERE id = 2",
    "INSERT INTO other VALUES (1, 'glad')",
    "SELECT pg_logical_emit_message(true, 'greeting', 'hello')",
    "ALTER TABLE outbox_events ADD COLUMN trace text",
    "INSERT INTO outbox_events VALUES (5, 'orders', 'order-9', 'placed', 'null', 't-1')",
    "TRUNCATE other",
]
READ = """SELECT lsn, encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL,
          'proto_version', '1', 'publication_names', 'p', 'messages', 'true')"""

for version in map(int, sys.argv[1:] or [14, 15, 16, 17, 18]):
    with Postgres(version) as pg:
        for statement in SET_UP + TRAFFIC:
            pg.sql(statement)
        lines = [f"{position} {message}\n" for position, message in pg.sql(READ)]
        (HERE / f"pgoutput_{version}.hex").write_text("".join(lines))
        print(version, len(lines))
