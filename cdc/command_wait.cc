// `wait`: returns once everything up to a position is acknowledged. For deploys, migrations and upgrades.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/commands.h"
#include "cdc/one_shot.h"
#include "cdc/provision.h"

namespace outbox {

namespace {

constexpr std::chrono::milliseconds look_again{200};

}  // namespace

ExitCode run_wait(const Config& config, const WaitOptions& options) {
  EventLoop loop;
  PgConnection sql(connection_keywords(config.source, ConnectionKind::plain), loop, one_shot_deadline());
  const auto& name = config.source.slot.name;
  const auto deadline = EventLoop::now().steady + options.timeout;
  std::optional<Lsn> wanted = options.lsn;
  for (;;) {
    const auto catalog = read_catalog(sql, config, one_shot_deadline());
    if (!catalog.slot) {
      throw FatalError(ExitCode::missing, fmt::format("replication slot \"{}\" does not exist", name));
    }
    if (catalog.slot->lost()) {
      throw FatalError(
          ExitCode::slot_lost,
          fmt::format("replication slot \"{}\" is lost: it will not get there. See outbox-relay status", name));
    }
    if (!wanted) wanted = catalog.wal_end;
    const auto confirmed = catalog.slot->confirmed_flush_lsn;
    if (confirmed >= *wanted) {
      spdlog::info("everything up to {} is acknowledged (slot \"{}\" is at {})", to_string(*wanted), name,
                   to_string(confirmed));
      return ExitCode::ok;
    }
    if (EventLoop::now().steady >= deadline) {
      spdlog::error("slot \"{}\" is at {} and not yet at {}{}", name, to_string(confirmed), to_string(*wanted),
                    catalog.slot->active ? "" : ": no relay reads it. Start outbox-relay run");
      return ExitCode::drain_incomplete;
    }
    loop.sleep_until(std::min(deadline, EventLoop::now().steady + look_again));
  }
}

}  // namespace outbox
