// `slot drop`: gives up what the slot holds.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/commands.h"
#include "cdc/one_shot.h"
#include "cdc/provision.h"
#include "cdc/replication_connection.h"

namespace outbox {

ExitCode run_slot_drop(const Config& config, const SlotDropOptions& options) {
  EventLoop loop;
  ReplicationConnection connection(config.source, loop, one_shot_deadline());
  const auto catalog = read_catalog(connection.sql(), config, one_shot_deadline());
  const auto& name = config.source.slot.name;
  if (!catalog.slot) {
    throw FatalError(ExitCode::missing, fmt::format("replication slot \"{}\" does not exist", name));
  }
  if (catalog.slot->active && !options.force) {
    throw FatalError(ExitCode::unavailable,
                     fmt::format("replication slot \"{}\" is in use by PID {}. Stop that relay first, or add --force",
                                 name, catalog.slot->active_pid));
  }
  if (catalog.slot->active) {
    connection.sql().query(fmt::format("SELECT pg_terminate_backend({})", catalog.slot->active_pid),
                           one_shot_deadline());
  }
  // WAIT: until the walsender that was ended has let go.
  connection.sql().query(fmt::format("DROP_REPLICATION_SLOT \"{}\" WAIT", name), one_shot_deadline());
  spdlog::info("dropped replication slot \"{}\", which was at {}", name, to_string(catalog.slot->confirmed_flush_lsn));
  return ExitCode::ok;
}

}  // namespace outbox
