// One seeded run of the relay between the model server and the model sink, which may both fail at any step.
//
// Plays the daemon's part as cdc/daemon.cc does: what a stream begins with, what its end leaves, what a process knows.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cdc/errors.h"
#include "cdc/relay.h"
#include "tests/simulation_server.h"
#include "tests/simulation_sink.h"

namespace outbox::simulation {

// Faults of the relay that the judge has to see.
enum class Variant {
  sound,
  confirms_newest_delivered,   // Instead of the longest delivered prefix.
  confirms_what_was_received,  // Instead of what was delivered.
  believes_watermark_of_any_history,
  forgets_deliveries_between_streams,
};

struct Totals {
  int streams = 0;
  int kills = 0;
  int clean_stops = 0;
  int crashes = 0;
  int histories = 0;
  int halts = 0;
  int dead_letters = 0;
  int broken_sinks = 0;
  int blocked = 0;
  int updates = 0;
  std::uint64_t events = 0;
  std::uint64_t suppressed = 0;
  std::uint64_t duplicates = 0;
};

class Simulation {
 public:
  // With a dead-letter topic in `delivery`, what the sink refuses goes there instead of halting the relay.
  Simulation(std::uint32_t seed, Variant variant, const std::vector<OutboxConfig>& outbox, DeliveryConfig delivery = {})
      : random_(seed), variant_(variant), outbox_(outbox), delivery_(std::move(delivery)) {
    new_process();
  }

  // The first promise that was broken, or an empty text.
  std::string run(int steps) {
    try {
      for (int step = 0; step < steps && judge_.violation.empty(); ++step) turn();
      finish();
    } catch (const ProtocolError& error) {
      judge_.accuse(error.what());
    }
    totals.events = judge_.delivered().size();
    totals.duplicates = judge_.duplicates;
    return judge_.violation;
  }

  Totals totals;

 private:
  static constexpr std::size_t max_in_flight = 16;

  struct Watermark {
    int history;
    Lsn flushed;
  };

  void new_process() {
    if (relay_) totals.suppressed += relay_->counts().records_suppressed;
    sink_.reset();
    relay_ = std::make_unique<Relay>(outbox_, max_in_flight, delivery_);
    watermark_.reset();
    start_stream();
  }

  void start_stream() {
    ++totals.streams;
    const bool stale = watermark_ && watermark_->history != server_.history();
    if (stale && variant_ != Variant::believes_watermark_of_any_history) watermark_.reset();
    if (stale) judge_.forget_acknowledged();
    if (!sink_) sink_ = std::make_unique<ModelSink>(random_, judge_, faults_);
    const auto& last = relay_->last_delivered();
    const bool forgotten = watermark_ && last && server_.confirmed() <= last->commit_lsn;
    std::optional<ResumePoint> after;
    if (forgotten) {
      after = {.commit_lsn = last->commit_lsn,
               .anchor = ResumePoint::Anchor{
                   .xid = last->xid, .commit_time = last->commit_time, .records = DeliveredPart::all}};
    }
    const bool remembers = variant_ != Variant::forgets_deliveries_between_streams;
    server_.start(after ? after->commit_lsn : Lsn{});
    relay_->start_stream(*sink_,
                         {.position = after ? after->commit_lsn : server_.confirmed(),
                          .same_history = watermark_.has_value() && remembers,
                          .resume = variant_ == Variant::believes_watermark_of_any_history ? std::nullopt : after,
                          .catalog = {}},
                         now_);
    watermark_ = {.history = server_.history(), .flushed = {}};
  }

  void leave_stream() {
    try {
      for (auto patience = below(random_, 20); patience > 0 && !relay_->all_reported(); --patience) {
        sink_->turn();
        relay_->settle(now_);
      }
    } catch (const SinkBroken&) {
    }
    if (relay_->refused() > 0 || !relay_->all_reported()) sink_.reset();
    watermark_->flushed = relay_->flushed_lsn();
  }

  void kill() {
    ++totals.kills;
    judge_.forget_acknowledged();
    new_process();
  }

  // SIGTERM: reads on to the next Commit, drains, confirms. Whatever was acknowledged is never sent again.
  void stop_cleanly() {
    for (int patience = 0; relay_->stopping_repeats() || !relay_->drained(); ++patience) {
      if (patience > 10000) return judge_.accuse("a stop does not come to its end");
      if (relay_->stopping_repeats()) read();
      sink_->turn();
      relay_->collect(now_);
    }
    confirm();
    ++totals.clean_stops;
    judge_.stopped_cleanly();
    new_process();
  }

  void read() {
    for (auto most = 1 + below(random_, 8); most > 0 && relay_->wants_input(); --most) {
      const auto frame = server_.next();
      if (!frame) return;
      relay_->receive(*frame, now_);
    }
  }

  Lsn position_to_confirm(const StandbyStatusUpdate& update) const {
    switch (variant_) {
      case Variant::confirms_newest_delivered: {
        Lsn newest = update.flushed;
        for (const auto& transaction : server_.log()) {
          if (!transaction.events.empty() && transaction.end_lsn <= server_.shown() &&
              judge_.delivered(transaction.events.back().number)) {
            newest = std::max(newest, transaction.end_lsn);
          }
        }
        return newest;
      }
      case Variant::confirms_what_was_received:
        return update.written;
      default:
        return update.flushed;
    }
  }

  void confirm() {
    ++totals.updates;
    auto update = relay_->take_status(now_, false);
    update.flushed = position_to_confirm(update);
    server_.update(update);
    if (update.flushed > server_.shown()) {
      judge_.accuse("confirmed " + to_string(update.flushed) + " where the server has shown " +
                    to_string(server_.shown()));
    }
    for (const auto& transaction : server_.log()) {
      if (transaction.commit_lsn >= server_.confirmed()) break;
      for (const auto& event : transaction.events) {
        if (judge_.delivered(event.number)) continue;
        judge_.accuse("confirmed " + to_string(server_.confirmed()) + " before event " + std::to_string(event.number) +
                      " was delivered");
      }
    }
  }

  // One turn of the loop in cdc/stream.cc, with services, servers and brokers going on beside it.
  void turn() {
    if (faults_) {
      if (chance(random_, 0.15)) server_.commit();
      if (chance(random_, 0.05)) server_.other_traffic();
      if (chance(random_, 0.02)) server_.checkpoint();
    }
    const std::chrono::milliseconds passed(below(random_, 60));
    now_.steady += passed;
    now_.wall += passed;
    try {
      if (chance(random_, 0.8)) read();
      sink_->turn();
      relay_->collect(now_);
      totals.blocked += relay_->wants_input() ? 0 : 1;
      if (now_.steady >= relay_->status_due_at()) confirm();
      if (faults_) maybe_fail();
    } catch (const HistoryChanged&) {
      leave_stream();
      watermark_.reset();
      judge_.forget_acknowledged();
      start_stream();
    } catch (const DeadLetterDue&) {
      ++totals.dead_letters;
      leave_stream();
      start_stream();
    } catch (const HaltError&) {
      ++totals.halts;
      leave_stream();
      start_stream();
    } catch (const SinkBroken&) {
      ++totals.broken_sinks;
      leave_stream();
      sink_.reset();
      start_stream();
    }
  }

  void maybe_fail() {
    if (chance(random_, 0.005)) {
      kill();
    } else if (chance(random_, 0.003)) {
      stop_cleanly();
    } else if (chance(random_, 0.02)) {
      lose_stream();
    }
  }

  void lose_stream() {
    leave_stream();
    if (chance(random_, 0.3)) {
      server_.crash();
      judge_.server_forgets();
      ++totals.crashes;
    } else if (chance(random_, 0.1)) {
      server_.change_history();
      ++totals.histories;
    }
    start_stream();
  }

  // Faults end; everything has to arrive and to be confirmed.
  void finish() {
    faults_ = false;
    for (int patience = 0; server_.confirmed() < server_.wal_end(); ++patience) {
      if (!judge_.violation.empty()) return;
      if (patience > 20000) return judge_.accuse("the confirmed position never caught up");
      turn();
    }
    std::set<std::uint64_t> committed;
    for (const auto& transaction : server_.log()) {
      for (const auto& event : transaction.events) {
        committed.insert(event.number);
        if (!judge_.delivered(event.number)) judge_.accuse("event " + std::to_string(event.number) + " is lost");
      }
    }
    if (totals.histories == 0 && judge_.delivered() != committed) judge_.accuse("something uncommitted was delivered");
  }

  Random random_;
  Variant variant_;
  const std::vector<OutboxConfig>& outbox_;
  DeliveryConfig delivery_;
  bool faults_ = true;
  Judge judge_;
  ModelServer server_{random_};
  Now now_{.steady = TimePoint(std::chrono::hours(1)), .wall = wire::noon};
  std::optional<Watermark> watermark_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<ModelSink> sink_;
};

}  // namespace outbox::simulation
