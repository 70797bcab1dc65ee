// Takes the replication slot, and knows from where the stream that it gives may go on.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cdc/observer.h"
#include "cdc/preflight.h"
#include "cdc/relay.h"
#include "cdc/replication_connection.h"
#include "cdc/resume.h"
#include "cdc/timeline.h"
#include "config/config.h"

namespace outbox {

// What a stream that has been started begins with.
struct ClaimedSlot {
  Catalog catalog;
  // As StreamStart has them.
  Lsn position;
  bool same_history = false;
  std::optional<ResumePoint> resume;
  std::function<Resumption(const std::string& text)> judge_checkpoint;
};

// The slot is the lock: while another process holds it, claim() stands by. What this process has delivered beyond the
// slot's position is remembered from stream to stream, and believed only of the same history.
class SlotClaim {
 public:
  // All are borrowed.
  SlotClaim(const Config& config, EventLoop& loop, Observer& observer, const Relay& relay)
      : config_(config), loop_(loop), observer_(observer), relay_(relay) {}

  // Makes what is missing where the configuration allows it, waits for the slot, and starts the stream. Throws
  // FatalError, HaltError, PgError and StopRequested.
  ClaimedSlot claim(ReplicationConnection& connection, const SystemIdentity& identity);

  // The stream is over, and everything up to here is delivered.
  void release() {
    if (watermark_) watermark_->progress = progress();
  }

  // The server is not the one that it seemed to be: the slot alone decides.
  void forget() { watermark_.reset(); }

  // The next gap between what was delivered and where the slot stands is passed over.
  void accept_gap() { accept_gap_ = true; }

  // Whether this process has held the slot before.
  bool claimed_before() const { return claimed_before_; }

 private:
  // How far this process has delivered, and of which history.
  struct Watermark {
    HistoryIdentity identity;
    Progress progress;
    int backend_pid = 0;  // Of the walsender that streamed it.
  };

  void make_what_is_missing(ReplicationConnection& connection);
  void stand_by(const CatalogSlot& slot);
  Progress progress() const;
  bool checkpoint_decides() const;
  Resumption judge_watermark(const ServerPosition& server);
  Resumption judge_checkpoint(const std::string& text, const ServerPosition& server, const TimelineHistory& history);
  void pass_gap(Lsn delivered, Lsn confirmed);
  void log_warnings(const std::vector<Finding>& findings);

  const Config& config_;
  EventLoop& loop_;
  Observer& observer_;
  const Relay& relay_;
  std::optional<Watermark> watermark_;
  bool accept_gap_ = false;
  bool claimed_before_ = false;   // A slot that is gone after this must not be made anew.
  std::set<std::string> warned_;  // Each warning is logged once.
};

}  // namespace outbox
