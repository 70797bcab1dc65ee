-- The outbox: one row per event, written in the same transaction as the change that it tells of.
--
--   psql -d shop -f sql/01_outbox_events.sql
--
-- Run it as the role that owns the service's tables. It can be run again.

BEGIN;

CREATE TABLE IF NOT EXISTS outbox_events (
  id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregate_type text        NOT NULL,
  aggregate_id   text        NOT NULL,
  event_type     text        NOT NULL,
  payload        jsonb,
  created_at     timestamptz NOT NULL DEFAULT now(),
  sent_at        timestamptz
);

COMMENT ON TABLE outbox_events IS
  'Events to publish. The relay reads them from the write-ahead log: a row may be deleted as soon as it is committed, '
  'but while it is kept it can be sent again.';
COMMENT ON COLUMN outbox_events.id IS
  'Identity of the event: the header "id". Consumers drop repeats by it.';
COMMENT ON COLUMN outbox_events.aggregate_type IS
  'Kind of thing that the event is about, such as order. Chooses the topic: outbox.event.order.';
COMMENT ON COLUMN outbox_events.aggregate_id IS
  'Which one it is about: the key of the record. Events of one aggregate stay in the order of their commits.';
COMMENT ON COLUMN outbox_events.event_type IS
  'What happened, such as OrderPlaced: the header "event_type".';
COMMENT ON COLUMN outbox_events.payload IS
  'The value of the record, byte for byte as PostgreSQL prints it. NULL becomes a tombstone.';
COMMENT ON COLUMN outbox_events.created_at IS
  'When the event was written, by the clock of the transaction; the record itself carries the time of the commit.';
COMMENT ON COLUMN outbox_events.sent_at IS
  'Left NULL: an update per event doubles the WAL. For services that mark what they know to be delivered.';

COMMIT;
