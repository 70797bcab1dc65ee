#include "cdc/slot_claim.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/checkpoint.h"
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
  const auto history = connection.timeline_history(identity.timeline, deadline());
  // What a transaction of unknown outcome has delivered, the checkpoint alone knows.
  if (config_.delivery.guarantee == Guarantee::exactly_once) watermark_.reset();
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
      const ServerPosition server{
          .identity = {.system_identifier = identity.system_identifier, .timeline = identity.timeline},
          .slot_confirmed = catalog.slot->confirmed_flush_lsn,
          .wal_end = catalog.wal_end,
          .switch_point = watermark_ ? switch_point(history, watermark_->identity.timeline) : std::nullopt};
      const auto resumption = judge_watermark(server);
      // A transaction that has to come by again can be begun with; what is known of others is not.
      const bool anchored = resumption.resume && resumption.resume->anchor;
      const auto start = anchored ? resumption.resume->commit_lsn : Lsn{};
      try {
        connection.start(config_.source.slot.name, config_.source.publication.name, start, deadline());
        ClaimedSlot claimed{.catalog = std::move(catalog),
                            .position = std::max(start, server.slot_confirmed),
                            .same_history = resumption.same_history,
                            .resume = resumption.resume,
                            .judge_checkpoint = nullptr};
        if (checkpoint_decides()) {
          claimed.judge_checkpoint = [this, server, history](const std::string& text) {
            return judge_checkpoint(text, server, history);
          };
        }
        watermark_ = {.identity = server.identity, .progress = {}, .backend_pid = PQbackendPID(connection.sql().get())};
        claimed_before_ = true;
        return claimed;
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

Progress SlotClaim::progress() const {
  Progress progress{.flushed = relay_.flushed_lsn(), .last = std::nullopt};
  if (const auto& last = relay_.last_delivered()) {
    progress.last = {.commit_lsn = last->commit_lsn,
                     .xid = last->xid,
                     .commit_time = last->commit_time,
                     .records = DeliveredPart::all};
  }
  return progress;
}

// Where this process has no position of its own that could be newer.
bool SlotClaim::checkpoint_decides() const { return !config_.delivery.checkpoint_topic.empty() && !watermark_; }

// Refuses it, unless a person has typed that this one is accepted.
void SlotClaim::pass_gap(Lsn delivered, Lsn confirmed) {
  const auto what = fmt::format(
      "replication slot \"{}\" was advanced from {} to {} by someone else: events committed between the two "
      "were not sent, unless another relay sent them",
      config_.source.slot.name, to_string(delivered), to_string(confirmed));
  if (!std::exchange(accept_gap_, false)) {
    throw FatalError(ExitCode::slot_lost,
                     fmt::format("{}. Send them again from the table; then, to go on, run outbox-relay run --config {} "
                                 "--accept-gap",
                                 what, config_.file));
  }
  spdlog::warn("{}. Accepted by --accept-gap: going on from {}", what, to_string(confirmed));
}

// Our own position is believed only of the history that it was measured on: ahead of another one, it would skip
// events. PostgreSQL forgets confirmations when it crashes, and before 17 at every restart: what we delivered beyond
// the slot's position is passed over once its last transaction has come by again.
Resumption SlotClaim::judge_watermark(const ServerPosition& server) {
  if (!watermark_) return {};
  const auto resumption = judge(watermark_->progress, watermark_->identity, server);
  const auto flushed = watermark_->progress.flushed;
  switch (resumption.verdict) {
    case Resumption::Verdict::gap:
      pass_gap(flushed, server.slot_confirmed);
      watermark_.reset();
      return {};
    case Resumption::Verdict::other:
    case Resumption::Verdict::server_back:
      spdlog::warn(
          "the server is not the one of before (system {}, timeline {}, WAL up to {}): resuming from the slot's "
          "own position {} instead of {}",
          server.identity.system_identifier, server.identity.timeline, to_string(server.wal_end),
          to_string(server.slot_confirmed), to_string(flushed));
      watermark_.reset();
      return {};
    case Resumption::Verdict::believed:
      break;
  }
  if (!resumption.same_history) {
    spdlog::warn(
        "the server is on timeline {}, which left timeline {} at {}, and events up to {} were sent: those behind that "
        "point belong to transactions that this server does not have",
        server.identity.timeline, watermark_->identity.timeline, to_string(resumption.flushed), to_string(flushed));
  }
  return resumption;
}

Resumption SlotClaim::judge_checkpoint(const std::string& text, const ServerPosition& server,
                                       const TimelineHistory& history) {
  const auto& topic = config_.delivery.checkpoint_topic;
  const auto stored = decode_checkpoint(text);
  if (!stored) {
    throw FatalError(ExitCode::config,
                     fmt::format("checkpoint topic \"{}\" holds what is no checkpoint of this version. Is it the topic "
                                 "of something else? Set delivery.checkpoint.topic, or run outbox-relay init "
                                 "--reset-checkpoint",
                                 topic));
  }
  auto measured = server;
  measured.switch_point = switch_point(history, stored->identity.timeline);
  const auto resumption = judge(stored->progress, stored->identity, measured);
  const auto flushed = to_string(stored->progress.flushed);
  switch (resumption.verdict) {
    case Resumption::Verdict::believed:
      break;
    case Resumption::Verdict::gap:
      pass_gap(stored->progress.flushed, server.slot_confirmed);
      return {.verdict = Resumption::Verdict::believed, .flushed = server.slot_confirmed};
    case Resumption::Verdict::other:
      throw FatalError(
          ExitCode::slot_lost,
          fmt::format("the checkpoint is of system {}, timeline {}, and the server is system {}, timeline {}: what was "
                      "sent of its events is not known. After pg_upgrade or for a new cluster run outbox-relay init "
                      "--reset-checkpoint; what follows {} in the slot is then sent",
                      stored->identity.system_identifier, stored->identity.timeline, server.identity.system_identifier,
                      server.identity.timeline, to_string(server.slot_confirmed)));
    case Resumption::Verdict::server_back:
      throw FatalError(
          ExitCode::slot_lost,
          fmt::format("everything up to {} was sent, and the server's log ends at {}: it was restored from a copy that "
                      "is older. To send what follows {} in the slot, run outbox-relay init --reset-checkpoint",
                      flushed, to_string(server.wal_end), to_string(server.slot_confirmed)));
  }
  spdlog::info("the checkpoint says that everything up to {} is delivered{}", flushed,
               resumption.same_history
                   ? ""
                   : fmt::format("; of it, this timeline has what lies below {}", to_string(resumption.flushed)));
  return resumption;
}

void SlotClaim::log_warnings(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    if (finding.severity != Finding::Severity::warning) continue;
    if (warned_.insert(finding.text).second) spdlog::warn("{}", to_string(finding));
  }
}

}  // namespace outbox
