"""The database side of a measurement: the table, its slots, and the load."""

TOPIC_TYPES = ("order", "payment", "customer")
TOPICS = tuple(f"outbox.event.{name}" for name in TOPIC_TYPES)

POSTGRES_SETTINGS = {
    "wal_level": "logical", "fsync": "off", "max_replication_slots": 100, "max_wal_senders": 20,
    "max_wal_size": "16GB", "checkpoint_timeout": "1h", "shared_buffers": "256MB",
    "autovacuum": "off", "wal_sender_timeout": "60s",
}

SCHEMA = """
CREATE TABLE outbox_events (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text,
  event_type text, payload jsonb, created_at timestamptz DEFAULT now(), sent_at timestamptz);
CREATE PUBLICATION outbox FOR TABLE outbox_events WITH (publish = 'insert');

-- As many transactions as it takes. payload::text is 330 bytes long, give or take a digit.
CREATE PROCEDURE load_events(events integer, per_transaction integer) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..events LOOP
    INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
    VALUES ((ARRAY['order', 'payment', 'customer'])[1 + i % 3], 'order-' || i % 1000, 'OrderPlaced',
            ('{"n": ' || i || ', "t": 0, "note": "' || repeat('x', 119) || '", "order": {"id": ' || i
             || ', "lines": [{"qty": 2, "sku": "SKU-100200", "price": "19.90"},'
             || ' {"qty": 1, "sku": "SKU-100201", "price": "5.00"}],'
             || ' "customer": {"id": 4711, "name": "A. Customer"}}}')::jsonb);
    IF i % per_transaction = 0 THEN COMMIT; END IF;
  END LOOP;
END $$;
"""


class Outbox:
    def __init__(self, postgres, over_socket=False):
        self.postgres = postgres
        self._over_socket = over_socket
        postgres.sql(SCHEMA)

    @property
    def host(self):
        return str(self.postgres.socket_dir) if self._over_socket else self.postgres.host

    @property
    def conninfo(self):
        return f"host={self.host} port={self.postgres.port} user=postgres dbname=postgres"

    def create_slots(self, names):
        """Each stands at the same place: nothing is written between the first and the last."""
        for name in names:
            self.postgres.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def drop_slots(self):
        self.postgres.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")

    def load(self, events, per_transaction):
        """The position at which everything that was loaded has been read."""
        connection = self.postgres.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET synchronous_commit = off")
                cursor.execute("CALL load_events(%s, %s)", [events, per_transaction])
        finally:
            connection.close()
        # A transaction of its own that waits for its flush, and so for everything before it.
        self.postgres.sql("CREATE TABLE IF NOT EXISTS end_of_load (); DROP TABLE end_of_load")
        return self.postgres.value("SELECT pg_current_wal_flush_lsn()::text")

    def truncate(self):
        self.postgres.sql("TRUNCATE outbox_events")

    def payload_bytes(self):
        return self.postgres.value(
            "SELECT avg(octet_length(payload::text))::int FROM (SELECT payload FROM outbox_events LIMIT 1000) s")

    def walsender_pid(self, slot):
        return self.postgres.walsender_pid(slot)
