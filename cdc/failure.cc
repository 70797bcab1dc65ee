#include "cdc/failure.h"

#include <fmt/format.h>

#include "cdc/preflight.h"

namespace outbox {

Failure classify(const PgError& error, const std::string& role) {
  const auto& code = error.sqlstate();
  if (code.empty()) {
    return {FailureKind::transient, "connection_lost", ""};
  }
  if (code == sqlstate::insufficient_privilege) {
    return {FailureKind::permission, "other",
            fmt::format("Run ALTER ROLE {} REPLICATION;", role.empty() ? "…" : quote_identifier(role))};
  }
  if (code.substr(0, 2) == "28") {
    return {FailureKind::refused_login, "other",
            "Check source.user, its password or password_file, and pg_hba.conf (a logical replication connection "
            "matches its database's lines)"};
  }
  if (code == sqlstate::undefined_database) {
    return {FailureKind::config, "other", "Check source.database"};
  }
  if (code == sqlstate::undefined_object) {
    return {FailureKind::missing, "other",
            "The publication must exist before the rows that it publishes: see outbox-relay check --connect"};
  }
  if (code == sqlstate::protocol_violation || code == "0A000") {
    return {FailureKind::config, "other",
            "This looks like a connection pooler, or a server that cannot decode: connect to PostgreSQL itself"};
  }
  if (code == "57P01" || code == "57P02" || code == "57P05") return {FailureKind::transient, "terminated", ""};
  if (code == "57P03") return {FailureKind::transient, "server_shutdown", ""};
  return {FailureKind::transient, "other", ""};
}

}  // namespace outbox
