-- The publication that the relay subscribes to. It must exist before the first event and before the slot:
-- PostgreSQL decodes each row with the catalog of the moment it was written.
--
--   psql -d shop -f sql/02_publication.sql
--
-- Run it as the owner of outbox_events, who also needs CREATE on the database. It can be run again.
-- `outbox-relay init` does the same.

-- Inserts alone: a publication of updates and deletes would break the service's own UPDATE on every table in it
-- that has no replica identity. Through the root: partitions of a partitioned outbox come under its one name.
SELECT 'CREATE PUBLICATION outbox FOR TABLE outbox_events '
       'WITH (publish = ''insert'', publish_via_partition_root = true)'
WHERE NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'outbox')
\gexec
