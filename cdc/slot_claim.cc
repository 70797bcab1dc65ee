#include "cdc/slot_claim.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/exit_codes.h"
#include "cdc/provision.h"

namespace outbox {

namespace {

TimePoint deadline() { return EventLoop::now().steady + std::chrono::seconds(15); }

}  // namespace

void SlotClaim::make_what_is_missing(ReplicationConnection& connection) {
  const bool publication_allowed = config_.source.publication.create == CreatePolicy::if_missing;
  const bool slot_allowed = config_.source.slot.create == CreatePolicy::if_missing && !claimed_before_;
  if (!publication_allowed && !slot_allowed) return;
  const auto catalog = read_catalog(connection.sql(), config_, deadline());
  if (!catalog.publication && publication_allowed) create_publication(connection.sql(), config_);
  if (catalog.slot || !slot_allowed) return;
  observer_.enter(State::starting, "waiting for PostgreSQL to create the slot");
  create_slot(connection.sql(), config_);
}

ClaimedSlot SlotClaim::claim(ReplicationConnection& connection, const SystemIdentity& identity) {
  make_what_is_missing(connection);
  for (;;) {
    auto catalog = read_catalog(connection.sql(), config_, deadline());
    const auto findings = examine(catalog, config_);
    log_warnings(findings);
    if (!catalog.slot && claimed_before_) {
      throw FatalError(ExitCode::missing,
                       fmt::format("replication slot \"{}\" has been dropped; its last known position is {}. What was "
                                   "committed since is in the table alone, and a new slot would pass over it: send it "
                                   "again, then run outbox-relay init --config {}",
                                   config_.source.slot.name, to_string(relay_.flushed_lsn()), config_.file));
    }
    require_ready(findings);
    if (!catalog.slot->active) {
      check_watermark(catalog, identity);
      const auto after = resume_after(*catalog.slot);
      try {
        connection.start(config_.source.slot.name, config_.source.publication.name, after ? after->commit_lsn : Lsn{},
                         deadline());
        const bool same_history = watermark_.has_value();
        watermark_ = {.identity = identity, .flushed = {}, .backend_pid = PQbackendPID(connection.sql().get())};
        claimed_before_ = true;
        return {.catalog = std::move(catalog), .resume_after = after, .same_history = same_history};
      } catch (const PgError& error) {
        if (error.sqlstate() != sqlstate::object_in_use) throw;
      }
    }
    stand_by(*catalog.slot);
  }
}

// Another process holds the slot: that is a hot spare waiting, not an error.
void SlotClaim::stand_by(const CatalogSlot& slot) {
  // What another relay confirms is beyond what we know. Our own walsender of before a broken connection is not another.
  const bool ours = watermark_ && slot.active_pid == watermark_->backend_pid;
  if (!ours && slot.active_pid != 0) watermark_.reset();
  observer_.enter(State::standby, fmt::format("replication slot \"{}\" is in use by PID {}; waiting until it is free",
                                              config_.source.slot.name, slot.active_pid));
  loop_.sleep_until(EventLoop::now().steady + std::chrono::seconds(1));
}

// Our own position is believed only of the history that it was measured on: ahead of another one, it would skip
// events.
void SlotClaim::check_watermark(const Catalog& catalog, const SystemIdentity& identity) {
  if (!watermark_) return;
  const auto flushed = watermark_->flushed;
  if (watermark_->identity != identity || catalog.wal_end < flushed) {
    spdlog::warn(
        "the server is not the one of before (system {}, timeline {}, WAL up to {}): resuming from the slot's "
        "own position {} instead of {}",
        identity.system_identifier, identity.timeline, to_string(catalog.wal_end),
        to_string(catalog.slot->confirmed_flush_lsn), to_string(flushed));
    watermark_.reset();
    return;
  }
  if (catalog.slot->confirmed_flush_lsn > flushed) {
    throw FatalError(
        ExitCode::slot_lost,
        fmt::format("replication slot \"{}\" was advanced from {} to {} by someone else: events committed "
                    "between the two were not sent, unless another relay sent them. Send them again "
                    "from the table, then start the relay",
                    config_.source.slot.name, to_string(flushed), to_string(catalog.slot->confirmed_flush_lsn)));
  }
}

// PostgreSQL forgets confirmations when it crashes, and before 17 at every restart. What we delivered beyond the slot's
// position is passed over by starting at its last transaction, which must come by again.
std::optional<DeliveredTransaction> SlotClaim::resume_after(const CatalogSlot& slot) const {
  const auto& last = relay_.last_delivered();
  const bool forgotten = watermark_ && last && slot.confirmed_flush_lsn <= last->commit_lsn;
  return forgotten ? last : std::nullopt;
}

void SlotClaim::log_warnings(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    if (finding.severity != Finding::Severity::warning) continue;
    if (warned_.insert(finding.text).second) spdlog::warn("{}", to_string(finding));
  }
}

}  // namespace outbox
