#include "cdc/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace outbox {

namespace {

using Json = nlohmann::json;

// Rows as JSON, so that columns which only newer servers have are simply absent on older ones. {slot},
// {publication} and {tables} are literals; {schemas} is a query.
//
// Catalogs alone: pg_publication_tables and pg_partition_tree lock the tables themselves, and would wait behind a
// migration that holds the outbox.
constexpr const char* query_text = R"sql(
SELECT json_build_object(
  'server_version', current_setting('server_version_num')::int,
  'server_version_text', current_setting('server_version'),
  'wal_level', coalesce(current_setting('effective_wal_level', true), current_setting('wal_level')),
  'user', current_user,
  'database', current_database(),
  'may_replicate', (SELECT r.rolreplication OR r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)
    OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(current_user, r.oid, 'MEMBER')),
  'in_recovery', pg_is_in_recovery(),
  'wal_end', CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
  'wal_sender_timeout_ms', (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'),
  'slots_used', (SELECT count(*) FROM pg_replication_slots),
  'physical_slots', (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical'),
  'slots_max', current_setting('max_replication_slots')::int,
  'senders_used', (SELECT count(*) FROM pg_stat_replication),
  'senders_max', current_setting('max_wal_senders')::int,
  'synchronous_standby_names', current_setting('synchronous_standby_names'),
  'synchronized_standby_slots', current_setting('synchronized_standby_slots', true),
  'idle_slot_timeout', current_setting('idle_replication_slot_timeout', true),
  'slot', (SELECT to_json(s) FROM pg_replication_slots s WHERE s.slot_name = {slot}),
  'walsender_wait_event', (SELECT a.wait_event FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid
     WHERE s.slot_name = {slot}),
  'publication', (SELECT to_json(p) FROM pg_publication p WHERE p.pubname = {publication}),
  'published_tables', (SELECT json_agg(x.name) FROM (
     SELECT 'every table' AS name FROM pg_publication p WHERE p.pubname = {publication} AND p.puballtables
     UNION ALL (SELECT tn.nspname || '.' || t.relname FROM pg_publication p
       JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class t ON t.oid = r.prrelid
       JOIN pg_namespace tn ON tn.oid = t.relnamespace
       WHERE p.pubname = {publication} ORDER BY 1 LIMIT 20)
     UNION ALL (SELECT 'every table of schema ' || tn.nspname FROM pg_publication p
       JOIN pg_namespace tn ON tn.oid IN ({schemas})
       WHERE p.pubname = {publication} ORDER BY 1 LIMIT 20)) x),
  'oldest_transaction', (SELECT json_build_object('pid', l.pid, 'application_name', a.application_name, 'state', a.state)
     FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid()
     ORDER BY age(l.transactionid) DESC LIMIT 1),
  'tables', (SELECT json_agg(json_build_object(
      'exists', c.oid IS NOT NULL, 'kind', c.relkind, 'persistence', c.relpersistence,
      'columns', (SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
      'relations', to_json(tree.oids),
      'published', p.puballtables
         OR EXISTS (SELECT FROM pg_class m WHERE (m.oid = ANY (tree.oids) OR NOT p.pubviaroot AND m.oid = ANY (above.oids))
              AND (m.relnamespace IN ({schemas})
                OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = m.oid)))
    ) ORDER BY w.ordinal)
    FROM (VALUES {tables}) AS w (ordinal, schema_name, table_name)
    LEFT JOIN pg_namespace n ON n.nspname = w.schema_name
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.table_name
    LEFT JOIN pg_publication p ON p.pubname = {publication}
    LEFT JOIN LATERAL (
      WITH RECURSIVE part (oid) AS (SELECT c.oid WHERE c.oid IS NOT NULL UNION
        SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
        JOIN pg_class k ON k.oid = i.inhrelid AND k.relispartition)
      SELECT array_agg(part.oid::bigint) AS oids FROM part) AS tree ON true
    LEFT JOIN LATERAL (
      WITH RECURSIVE root (oid) AS (SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid AND c.relispartition
        UNION SELECT i.inhparent FROM root JOIN pg_inherits i ON i.inhrelid = root.oid)
      SELECT array_agg(root.oid::bigint) AS oids FROM root) AS above ON true)
)::text)sql";

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

bool truth_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Lsn lsn_of(const Json& object, const char* key) { return parse_lsn(text_of(object, key)).value_or(Lsn{}); }

template <typename Value>
std::vector<Value> list_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? found->get<std::vector<Value>>() : std::vector<Value>();
}

CatalogSlot parse_slot(const Json& row) {
  CatalogSlot slot{.plugin = text_of(row, "plugin"),
                   .type = text_of(row, "slot_type"),
                   .database = text_of(row, "database"),
                   .active = truth_of(row, "active"),
                   .failover = truth_of(row, "failover"),
                   .active_pid = number_of(row, "active_pid"),
                   .restart_lsn = lsn_of(row, "restart_lsn"),
                   .confirmed_flush_lsn = lsn_of(row, "confirmed_flush_lsn"),
                   .wal_status = text_of(row, "wal_status"),
                   .invalidation_reason = text_of(row, "invalidation_reason"),
                   .walsender_wait_event = {},
                   .safe_wal_bytes = {}};
  if (row.contains("safe_wal_size") && row["safe_wal_size"].is_number()) {
    slot.safe_wal_bytes = row["safe_wal_size"].get<std::int64_t>();
  }
  return slot;
}

CatalogTable parse_table(const Json& row) {
  return {
      .exists = truth_of(row, "exists"),
      .published = truth_of(row, "published"),
      .kind = text_of(row, "kind"),
      .persistence = text_of(row, "persistence"),
      .columns = list_of<std::string>(row, "columns"),
      .relations = truth_of(row, "exists") ? list_of<pgoutput::Oid>(row, "relations") : std::vector<pgoutput::Oid>()};
}

bool same_ignoring_case(const std::string& left, const std::string& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  });
}

}  // namespace

RelationMap Catalog::relations() const {
  RelationMap map;
  for (std::size_t entry = 0; entry < tables.size(); ++entry) {
    for (const auto oid : tables[entry].relations) map[oid] = entry;
  }
  return map;
}

bool Catalog::wal_is_kept_by_idleness() const {
  constexpr std::uint64_t worth_a_record = 1 << 20;
  return slot && !in_recovery && !oldest_transaction && wal_end <= slot->confirmed_flush_lsn &&
         slot->confirmed_flush_lsn.value > slot->restart_lsn.value + worth_a_record;
}

std::string catalog_query(const Config& config, int server_version, const QuoteLiteral& literal) {
  // Of publication `p`; PostgreSQL 14 publishes no schemas.
  const char* schemas = server_version < 150000
                            ? "SELECT NULL::oid WHERE false"
                            : "SELECT s.pnnspid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid";
  std::string tables;
  for (std::size_t entry = 0; entry < config.outbox.size(); ++entry) {
    const auto& table = config.outbox[entry].table;
    tables += fmt::format("{}({}, {}::name, {}::name)", entry == 0 ? "" : ", ", entry, literal(table.schema),
                          literal(table.name));
  }
  return fmt::format(fmt::runtime(query_text), fmt::arg("slot", literal(config.source.slot.name)),
                     fmt::arg("publication", literal(config.source.publication.name)), fmt::arg("tables", tables),
                     fmt::arg("schemas", schemas));
}

Catalog parse_catalog(const std::string& text) {
  const auto json = Json::parse(text);
  Catalog catalog{.server_version = static_cast<int>(number_of(json, "server_version")),
                  .server_version_text = text_of(json, "server_version_text"),
                  .wal_level = text_of(json, "wal_level"),
                  .user = text_of(json, "user"),
                  .database = text_of(json, "database"),
                  .may_replicate = truth_of(json, "may_replicate"),
                  .in_recovery = truth_of(json, "in_recovery"),
                  .wal_end = lsn_of(json, "wal_end"),
                  .wal_sender_timeout_ms = number_of(json, "wal_sender_timeout_ms"),
                  .slots_used = number_of(json, "slots_used"),
                  .slots_max = number_of(json, "slots_max"),
                  .senders_used = number_of(json, "senders_used"),
                  .senders_max = number_of(json, "senders_max"),
                  .synchronous_standby_names = text_of(json, "synchronous_standby_names"),
                  .physical_slots = number_of(json, "physical_slots"),
                  .synchronized_standby_slots = text_of(json, "synchronized_standby_slots"),
                  .idle_slot_timeout = text_of(json, "idle_slot_timeout"),
                  .slot = {},
                  .publication = {},
                  .tables = {},
                  .published_tables = list_of<std::string>(json, "published_tables"),
                  .oldest_transaction = {}};
  if (const auto& row = json.at("slot"); row.is_object()) {
    catalog.slot = parse_slot(row);
    catalog.slot->walsender_wait_event = text_of(json, "walsender_wait_event");
  }
  if (const auto& row = json.at("publication"); row.is_object()) {
    catalog.publication = CatalogPublication{.inserts = truth_of(row, "pubinsert"),
                                             .updates = truth_of(row, "pubupdate"),
                                             .deletes = truth_of(row, "pubdelete"),
                                             .truncates = truth_of(row, "pubtruncate")};
  }
  if (const auto& row = json.at("oldest_transaction"); row.is_object()) {
    catalog.oldest_transaction = OldestTransaction{.pid = number_of(row, "pid"),
                                                   .application_name = text_of(row, "application_name"),
                                                   .state = text_of(row, "state")};
  }
  for (const auto& row : json.at("tables")) catalog.tables.push_back(parse_table(row));
  return catalog;
}

bool counts_as_synchronous(const std::string& synchronous_standby_names, const std::string& application_name) {
  std::string token;
  const auto matches = [&] { return token == "*" || same_ignoring_case(token, application_name); };
  bool quoted = false;
  for (const char c : synchronous_standby_names) {
    if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '(' || c == ')' || std::isspace(static_cast<unsigned char>(c)) != 0)) {
      if (matches()) return true;
      token.clear();
    } else {
      token += c;
    }
  }
  return matches();
}

}  // namespace outbox
