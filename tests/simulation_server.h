// A model of PostgreSQL for the simulation: a commit list, a slot, and the stream that starts from it.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/wire.h"

namespace outbox::simulation {

using Random = std::mt19937;

inline std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }
inline bool chance(Random& random, double probability) { return std::bernoulli_distribution(probability)(random); }

// `number` rises with every event that is ever made, also over a change of history.
struct Event {
  std::uint64_t number;
  std::string key;
};

struct Transaction {
  Lsn commit_lsn;
  Lsn end_lsn;
  std::uint32_t xid;
  std::vector<Event> events;  // Empty: one that servers before 15 send although nothing of it is published.
};

class ModelServer {
 public:
  static constexpr pgoutput::Oid oid = 16384;

  explicit ModelServer(Random& random) : random_(random) {}

  // What services do.
  void commit() {
    static constexpr std::size_t sizes[] = {0, 1, 1, 1, 2, 3, 5, 40};
    const auto size = sizes[below(random_, std::size(sizes))];
    Transaction transaction{
        .commit_lsn = Lsn{wal_end_.value + below(random_, 100)}, .end_lsn = {}, .xid = next_xid_++, .events = {}};
    for (std::size_t count = 0; count < size; ++count) {
      transaction.events.push_back({.number = next_number_++, .key = "k" + std::to_string(below(random_, 7))});
    }
    transaction.end_lsn = Lsn{transaction.commit_lsn.value + 8 + below(random_, 50)};
    wal_end_ = transaction.end_lsn;
    log_.push_back(std::move(transaction));
  }
  void other_traffic() { wal_end_.value += 1 + below(random_, 10000); }

  // What happens to servers. Each ends the stream.
  void checkpoint() { durable_ = confirmed_; }
  void crash() { confirmed_ = durable_; }
  // A standby is promoted, or a backup restored, that never saw the last transactions.
  void change_history() {
    ++history_;
    const auto lost = std::min<std::uint64_t>(log_.size(), below(random_, 4));
    log_.resize(log_.size() - lost);
    wal_end_ = std::max(log_.empty() ? Lsn{} : log_.back().end_lsn, first_lsn);
    durable_ = std::min({durable_, confirmed_, wal_end_});
    confirmed_ = durable_;
  }

  // The stream.
  void start(Lsn requested) {
    const auto start = std::max(requested, confirmed_);
    next_ = static_cast<std::size_t>(
        std::find_if(log_.begin(), log_.end(), [&](const auto& each) { return each.commit_lsn >= start; }) -
        log_.begin());
    message_ = 0;
    described_ = false;
    start_ = start;
    shown_ = start;
  }

  bool caught_up() const { return next_ == log_.size(); }

  // The next frame; nothing where there is none, though it may still be quiet when there is.
  std::optional<std::string> next() {
    while (!caught_up() && log_[next_].commit_lsn < start_) ++next_;
    if (chance(random_, 0.1)) return keepalive();
    if (caught_up()) return chance(random_, 0.3) ? std::optional(keepalive()) : std::nullopt;
    const auto& transaction = log_[next_];
    const auto inserts = transaction.events.size();
    if (message_ == 0) {
      ++message_;
      return frame(wire::begin(transaction.commit_lsn, transaction.xid));
    }
    if (chance(random_, 0.05)) return frame(wire::without_event()[chance(random_, 0.5) ? 0 : 5]);
    if (message_ <= inserts) {
      if (!described_ || chance(random_, 0.02)) return describe();
      return insert(transaction.events[message_++ - 1]);
    }
    message_ = 0;
    ++next_;
    shown_ = std::max(shown_, transaction.end_lsn);
    return frame(wire::commit(transaction.commit_lsn, transaction.end_lsn));
  }

  void update(const StandbyStatusUpdate& update) { confirmed_ = std::max(confirmed_, update.flushed); }

  Lsn confirmed() const { return confirmed_; }
  Lsn wal_end() const { return wal_end_; }
  Lsn shown() const { return shown_; }  // The highest position that may be confirmed in this stream.
  int history() const { return history_; }
  const std::vector<Transaction>& log() const { return log_; }

 private:
  static constexpr Lsn first_lsn{0x100};

  std::string frame(const std::string& message) { return wire::xlog_data(shown_, message); }

  // Everything before its position has been sent, which in mid-transaction is nothing of that transaction.
  std::string keepalive() {
    const auto most = caught_up() ? wal_end_ : log_[next_].commit_lsn;
    const auto at = most > shown_ && !chance(random_, 0.3) ? most : shown_;
    if (message_ == 0) shown_ = std::max(shown_, at);
    return wire::keepalive(at, chance(random_, 0.2));
  }

  // The columns come in another order each time, as after an ALTER TABLE.
  std::string describe() {
    described_ = true;
    payload_first_ = chance(random_, 0.5);
    const std::vector<std::string> one{"payload", "aggregate_type", "aggregate_id"};
    const std::vector<std::string> other{"aggregate_id", "aggregate_type", "payload"};
    return frame(wire::relation(oid, "public", "outbox_events", payload_first_ ? one : other));
  }

  std::string insert(const Event& event) {
    const auto payload = std::to_string(event.number);
    return frame(payload_first_ ? wire::insert(oid, {payload, "t", event.key})
                                : wire::insert(oid, {event.key, "t", payload}));
  }

  Random& random_;
  std::vector<Transaction> log_;
  std::uint64_t next_number_ = 1;
  std::uint32_t next_xid_ = 1;
  Lsn wal_end_ = first_lsn;
  Lsn confirmed_ = first_lsn;
  Lsn durable_ = first_lsn;  // What a crash leaves of confirmed_.
  int history_ = 0;

  // Of the present stream.
  Lsn start_;                // What commits before it is never sent.
  std::size_t next_ = 0;     // The transaction that is being sent.
  std::size_t message_ = 0;  // Of it: 0 is its Begin, then its inserts, then its Commit.
  bool described_ = false;
  bool payload_first_ = false;
  Lsn shown_;
};

}  // namespace outbox::simulation
