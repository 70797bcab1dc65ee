#include "cdc/provision.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/exit_codes.h"
#include "cdc/preflight.h"
#include "cdc/replication_connection.h"

namespace outbox {

namespace {

TimePoint within(std::chrono::seconds span) { return EventLoop::now().steady + span; }

// Who holds a lock on an outbox table that CREATE PUBLICATION has to wait for.
std::string lock_holders(PgConnection& connection, const Config& config) {
  std::string names;
  for (const auto& entry : config.outbox) {
    names += fmt::format("{}to_regclass({})", names.empty() ? "" : ", ", connection.literal(quoted(entry.table)));
  }
  const auto result = connection.query(
      fmt::format("SELECT string_agg(format('PID %s (%s, since %s)', l.pid, coalesce(nullif(a.application_name, ''), "
                  "'unnamed'), a.xact_start), ', ') FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
                  "WHERE l.granted AND l.relation IN ({}) AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', "
                  "'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')",
                  names),
      within(std::chrono::seconds(10)));
  const std::string holders = PQgetvalue(result.get(), 0, 0);
  return holders.empty() ? "another session" : holders;
}

// Whom the creation of a slot waits for: everybody who writes at that moment.
std::string open_transactions(PgConnection& connection) {
  const auto result = connection.query(
      "SELECT string_agg(format('PID %s (%s, transaction %s, since %s)', l.pid, coalesce(nullif(a.application_name, "
      "''), "
      "'unnamed'), l.transactionid, a.xact_start), ', ' ORDER BY age(l.transactionid) DESC) FROM pg_locks l "
      "LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' "
      "AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()",
      within(std::chrono::seconds(10)));
  return PQgetvalue(result.get(), 0, 0);
}

// A standby's own slot cannot have it.
bool with_failover(PgConnection& connection, const Config& config) {
  const auto wanted = config.source.slot.failover;
  const bool possible = connection.server_version() >= 170000;
  if (wanted == FailoverSlot::on && !possible) {
    throw FatalError(
        ExitCode::config,
        fmt::format("source.slot.failover is on, and PostgreSQL {} has no failover slots: 17 is the first. "
                    "Set it to auto or off",
                    connection.server_version() / 10000));
  }
  if (wanted == FailoverSlot::off || !possible) return false;
  const auto result = connection.query("SELECT pg_is_in_recovery()", within(std::chrono::seconds(10)));
  return std::string(PQgetvalue(result.get(), 0, 0)) == "f";
}

}  // namespace

Catalog read_catalog(PgConnection& connection, const Config& config, TimePoint deadline) {
  const auto result = connection.query(catalog_query(config, connection.server_version(),
                                                     [&](const std::string& text) { return connection.literal(text); }),
                                       deadline);
  return parse_catalog(PQgetvalue(result.get(), 0, 0));
}

void create_publication(PgConnection& connection, const Config& config) {
  const auto sql = create_publication_sql(config, [&](const std::string& name) { return connection.identifier(name); });
  try {
    connection.query("SET lock_timeout = '5s'; " + sql, within(std::chrono::seconds(30)));
  } catch (const PgError& error) {
    if (error.sqlstate() == sqlstate::duplicate_object) return;
    if (error.sqlstate() == sqlstate::lock_not_available) {
      throw FatalError(ExitCode::unavailable,
                       fmt::format("the publication waits for a lock on its table that {} holds. Try again when that "
                                   "transaction has ended",
                                   lock_holders(connection, config)));
    }
    const bool denied = error.sqlstate() == sqlstate::insufficient_privilege;
    throw FatalError(
        denied ? ExitCode::permission : ExitCode::missing,
        fmt::format("the publication cannot be made: {}. Let the owner of the table, who also needs CREATE "
                    "on the database, run: {}",
                    error.what(), sql));
  }
  spdlog::info("created publication {}", quote_identifier(config.source.publication.name));
}

void create_slot(PgConnection& connection, const Config& config, bool temporary) {
  const auto& name = config.source.slot.name;
  const auto open = open_transactions(connection);
  spdlog::info("creating replication slot \"{}\": PostgreSQL waits for the transactions that are open now: {}", name,
               open.empty() ? "none" : open);
  // As long as the oldest of them lives; a signal ends the wait.
  const bool failover = !temporary && with_failover(connection, config);
  try {
    connection.query(create_slot_command(name, temporary, failover, connection.server_version()),
                     within(std::chrono::hours(24)));
  } catch (const StopRequested&) {
    connection.cancel();  // Otherwise the server would finish it, for nobody.
    throw;
  }
  spdlog::info("created replication slot \"{}\"", name);
}

}  // namespace outbox
