// What each failure of a stream means: try again, halt, or end the process.
#pragma once

#include <string>

#include "cdc/pg_connection.h"

namespace outbox {

enum class FailureKind {
  transient,      // The connection, a restart, a shutdown: reconnect.
  refused_login,  // A password may be about to be rotated: a few more tries.
  missing,        // The slot or the publication.
  permission,
  config,
};

struct Failure {
  FailureKind kind;
  const char* metric_reason;  // Label of outbox_relay_source_reconnects_total.
  std::string advice;         // What to do; may be empty.
};

// Decides by SQLSTATE, never by text that a server translates. `role` is who logs in, for the advice; empty where libpq
// chose.
Failure classify(const PgError& error, const std::string& role);

}  // namespace outbox
