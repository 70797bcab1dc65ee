// What stands in the way of streaming, by the catalog: the same findings for `run`, `check` and the probe.
#pragma once

#include <string>
#include <vector>

#include "cdc/catalog.h"
#include "cdc/exit_codes.h"
#include "config/config.h"

namespace outbox {

struct Finding {
  enum class Severity {
    ok,
    warning,  // Streams, but somebody should know.
    halt,     // The relay stays up, unready, and tries again.
    fatal,    // The relay ends with `code`.
  };
  // What it is about, so that a caller can mend it first: a missing publication or slot may be made.
  enum class Subject { server, role, publication, table, missing_table, slot };

  Severity severity = Severity::ok;
  Subject subject = Subject::server;
  ExitCode code = ExitCode::ok;
  std::string text;
  std::string remedy;  // What to type; empty for `ok`.
};

std::vector<Finding> examine(const Catalog& catalog, const Config& config);

// `text. remedy`, as one line.
std::string to_string(const Finding& finding);

// Throws FatalError or HaltError for the first finding that stands in the way; warnings are logged by the caller.
void require_ready(const std::vector<Finding>& findings);

// The statements that `init` runs, also for a DBA to run by hand.
std::string create_publication_sql(const Config& config, const QuoteLiteral& identifier);

// Double quotes around a name; for messages and --print-sql, where no server is at hand.
std::string quote_identifier(const std::string& name);
std::string quote_literal(const std::string& text);
std::string quoted(const TableName& table);

}  // namespace outbox
