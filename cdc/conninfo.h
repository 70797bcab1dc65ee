// From the source section of a configuration to libpq's keywords.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cdc/pg_handles.h"
#include "config/config.h"
#include "config/load.h"

namespace outbox {

using ConnectionKeywords = std::vector<std::pair<std::string, std::string>>;

enum class ConnectionKind { replication, plain };

// Reads the password file anew, so that a rotated secret is picked up. Throws FatalError where it cannot be read.
ConnectionKeywords connection_keywords(const SourceConfig& source, ConnectionKind kind);

// Begins to connect; never blocks but for looking up a host's name. Of a keyword that stands twice the last counts.
PgConnectionHandle start_connection(const ConnectionKeywords& keywords);

// The application_name that the connection will carry.
std::string application_name(const SourceConfig& source);

// Keywords under source.libpq that libpq does not know, each with its place.
void check_libpq_keywords(const SourceConfig& source, std::vector<ConfigProblem>& problems);

}  // namespace outbox
