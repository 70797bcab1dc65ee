// `check`: the file, and with --connect both servers.
#include <fmt/format.h>

#include "cdc/commands.h"
#include "cdc/conninfo.h"
#include "cdc/one_shot.h"
#include "cdc/provision.h"
#include "cdc/replication_connection.h"
#include "cdc/router.h"
#include "sinks/kafka_check.h"
#include "sinks/make_sink.h"

namespace outbox {

namespace {

ExitCode worse(ExitCode left, ExitCode right) { return left != ExitCode::ok ? left : right; }

ExitCode check_source(const Config& config) {
  EventLoop loop;
  ReplicationConnection connection(config.source, loop, one_shot_deadline());
  return report(examine(read_catalog(connection.sql(), config, one_shot_deadline()), config), stdout, ShowOk::yes);
}

ExitCode check_kafka(const Config& config) {
  auto code = ExitCode::ok;
  for (const auto& finding : check_kafka_topics(*config.sink.kafka, literal_topics(config), std::chrono::seconds(10))) {
    fmt::print("{:<8} {}\n", finding.fine ? "ok" : "error", finding.text);
    if (!finding.fine) code = finding.reachable ? ExitCode::config : ExitCode::unavailable;
  }
  return code;
}

}  // namespace

ExitCode run_check(const Config& config, const CheckOptions& options) {
  fmt::print("{:<8} {} is valid\n", "ok", config.file);
  if (!options.connect) return ExitCode::ok;
  auto code = check_source(config);
  if (config.sink.kafka) code = worse(code, check_kafka(config));
  return code;
}

}  // namespace outbox
