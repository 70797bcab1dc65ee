// What PostgreSQL says of itself, the slot, the publication and the outbox tables: one query, one answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cdc/lsn.h"
#include "cdc/outbox_decoder.h"
#include "config/config.h"

namespace outbox {

struct CatalogSlot {
  std::string plugin;
  std::string type;
  std::string database;
  bool active = false;
  bool failover = false;  // Standbys keep a copy; 17 and later.
  std::int64_t active_pid = 0;
  Lsn restart_lsn;
  Lsn confirmed_flush_lsn;
  std::string wal_status;            // reserved, extended, unreserved, lost.
  std::string invalidation_reason;   // Empty before PostgreSQL 17 and for a sound slot.
  std::string walsender_wait_event;  // Of pg_stat_activity; empty while nobody reads, or it waits for nothing.
  std::optional<std::int64_t> safe_wal_bytes;  // Nothing: unlimited, or lost already.

  bool lost() const { return wal_status == "lost" || !invalidation_reason.empty(); }

  // A walsender that streams waits in WalSenderWriteData for a reader that does not read. In ClientWrite it has been
  // terminated, and waits to say so: for ever, and with it whoever terminated it, such as the checkpointer that
  // invalidates the slot.
  bool walsender_waits_to_end() const { return walsender_wait_event == "ClientWrite"; }
};

struct CatalogPublication {
  bool inserts = false;
  bool updates = false;
  bool deletes = false;
  bool truncates = false;
};

struct CatalogTable {
  bool exists = false;
  bool published = false;
  std::string kind;         // pg_class.relkind.
  std::string persistence;  // pg_class.relpersistence: p, u, t.
  std::vector<std::string> columns;
  std::vector<pgoutput::Oid> relations;  // Itself and every partition below it.
};

// Who keeps restart_lsn where it is, when it is not the relay.
struct OldestTransaction {
  std::int64_t pid = 0;
  std::string application_name;
  std::string state;
};

struct Catalog {
  int server_version = 0;
  std::string server_version_text;
  std::string wal_level;  // effective_wal_level where the server has it (19).
  std::string user;
  std::string database;
  bool may_replicate = false;
  bool in_recovery = false;
  Lsn wal_end;
  std::int64_t wal_sender_timeout_ms = 0;
  std::int64_t slots_used = 0;
  std::int64_t slots_max = 0;
  std::int64_t senders_used = 0;
  std::int64_t senders_max = 0;
  std::string synchronous_standby_names;
  std::int64_t physical_slots = 0;         // Of standbys.
  std::string synchronized_standby_slots;  // Empty before PostgreSQL 17.
  std::string idle_slot_timeout;           // Empty before PostgreSQL 18.
  std::optional<CatalogSlot> slot;
  std::optional<CatalogPublication> publication;
  std::vector<CatalogTable> tables;           // One an outbox entry.
  std::vector<std::string> published_tables;  // For people: schema.table, at most 20, or what is published as a whole.
  std::optional<OldestTransaction> oldest_transaction;

  RelationMap relations() const;

  // Everything is confirmed, and WAL is kept all the same: a slot's restart_lsn follows at records that the server
  // writes when something has happened, and nothing happens here.
  bool wal_is_kept_by_idleness() const;
};

// Something that happens: of no table, with no grant, and sent to nobody who does not ask for messages.
inline constexpr const char* sign_of_life_query = "SELECT pg_logical_emit_message(true, 'outbox-relay', '')";

// Quotes a string literal for the server at hand.
using QuoteLiteral = std::function<std::string(const std::string&)>;

// The text of the query. LOGIN REPLICATION may run it; it takes no lock that a table's writer could hold.
std::string catalog_query(const Config& config, int server_version, const QuoteLiteral& literal);

// Its one field. Throws std::runtime_error for text that is not its answer.
Catalog parse_catalog(const std::string& json);

// Whether a walsender of this name would count as a synchronous standby.
bool counts_as_synchronous(const std::string& synchronous_standby_names, const std::string& application_name);

}  // namespace outbox
