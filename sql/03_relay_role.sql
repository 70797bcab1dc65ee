-- The role that the relay connects as: it may log in and replicate, and read no table.
--
--   psql -d shop -v password="$(cat relay.password)" -f sql/03_relay_role.sql
--
-- Run it as a superuser, or on a managed service as its administrator (there grant rds_replication or its like
-- instead of REPLICATION). Without -v password the role gets none. It can be run again.

\if :{?password}
\else
  \set password ''
\endif

SELECT 'CREATE ROLE relay LOGIN REPLICATION'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'relay')
\gexec

SELECT format('ALTER ROLE relay PASSWORD %L', :'password')
WHERE :'password' <> ''
\gexec

SELECT format('GRANT CONNECT ON DATABASE %I TO relay', current_database())
\gexec
