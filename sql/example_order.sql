-- How a service writes an event: in the transaction of the change that it tells of. Either both are committed, and
-- the event is published, or neither is.
--
--   psql -d shop -f sql/example_order.sql

CREATE TABLE IF NOT EXISTS orders (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  status text NOT NULL
);

BEGIN;

WITH placed AS (
  INSERT INTO orders (status) VALUES ('placed') RETURNING id, status
)
INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', id::text, 'OrderPlaced', jsonb_build_object('order_id', id, 'status', status)
FROM placed;

COMMIT;
