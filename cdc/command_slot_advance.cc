// `slot advance`: gives up a span of the log by name, for what the server itself cannot decode.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>

#include "cdc/commands.h"
#include "cdc/one_shot.h"
#include "cdc/provision.h"

namespace outbox {

namespace {

// Typed by a person, or --yes.
bool agreed(const std::string& slot, bool yes) {
  if (yes) return true;
  if (isatty(STDIN_FILENO) == 0) return false;
  fmt::print(stderr, "Type the name of the slot to give these events up: ");
  std::string typed;
  std::getline(std::cin, typed);
  return typed == slot;
}

}  // namespace

ExitCode run_slot_advance(const Config& config, const SlotAdvanceOptions& options) {
  EventLoop loop;
  PgConnection sql(connection_keywords(config.source, ConnectionKind::plain), loop, one_shot_deadline());
  const auto catalog = read_catalog(sql, config, one_shot_deadline());
  const auto& name = config.source.slot.name;
  if (!catalog.slot) throw FatalError(ExitCode::missing, fmt::format("replication slot \"{}\" does not exist", name));
  const auto& slot = *catalog.slot;
  if (slot.active) {
    throw FatalError(
        ExitCode::unavailable,
        fmt::format("replication slot \"{}\" is in use by PID {}. Stop that relay first", name, slot.active_pid));
  }
  const auto from = slot.confirmed_flush_lsn;
  if (options.past <= from) {
    throw FatalError(ExitCode::usage, fmt::format("replication slot \"{}\" is at {} already, which is not before {}",
                                                  name, to_string(from), to_string(options.past)));
  }
  if (options.past > catalog.wal_end) {
    throw FatalError(ExitCode::usage, fmt::format("the server's log ends at {}, which is before {}",
                                                  to_string(catalog.wal_end), to_string(options.past)));
  }
  fmt::print(
      stderr,
      "Every event committed from {} to {} ({} bytes of WAL, slot \"{}\") is given up: it will never be sent, and "
      "is in the table alone.\n",
      to_string(from), to_string(options.past), options.past.value - from.value, name);
  if (!agreed(name, options.yes)) {
    throw FatalError(ExitCode::usage, "not confirmed: type the name of the slot, or add --yes");
  }
  sql.query(fmt::format("SELECT pg_replication_slot_advance({}, {}::pg_lsn)", sql.literal(name),
                        sql.literal(to_string(options.past))),
            EventLoop::now().steady + std::chrono::minutes(10));
  const auto after = read_catalog(sql, config, one_shot_deadline());
  spdlog::warn("replication slot \"{}\" advanced from {} to {}: what was committed between the two is given up{}", name,
               to_string(from), to_string(after.slot->confirmed_flush_lsn),
               config.delivery.checkpoint_topic.empty()
                   ? ""
                   : ". The checkpoint does not know: start once with outbox-relay run --accept-gap");
  return ExitCode::ok;
}

}  // namespace outbox
