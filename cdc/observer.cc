#include "cdc/observer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/logging.h"
#include "cdc/printable.h"

namespace outbox {

void Observer::enter(State state, const std::string& given_reason) {
  const auto reason = printable(given_reason);
  const bool changed = state != status_.state || reason != status_.reason;
  if (!changed) return;
  const bool still_halted = status_.state == State::halted && relay_.flushed_lsn() <= halted_at_;
  if (still_halted && state != State::halted && state != State::stopping) return;
  if (state == State::halted) halted_at_ = relay_.flushed_lsn();
  if (status_.state == State::halted && state == State::streaming) {
    spdlog::info("streaming again, past where it halted");
  }
  status_.state = state;
  status_.reason = reason;
  // Back-pressure comes and goes many times a second under load: it is a metric, not a line.
  const bool busy = state == State::blocked || state == State::streaming;
  if (!busy) {
    const auto line = reason.empty() ? std::string(to_string(state)) : fmt::format("{}: {}", to_string(state), reason);
    if (state == State::halted) {
      spdlog::error("{}", line);
    } else {
      spdlog::info("{}", line);
    }
    service_.status(line);
  }
  publish(EventLoop::now());
}

void Observer::turned(const Now& now) {
  board_.turned(now.steady);
  service_.watchdog(now.steady);
  if (status_.state == State::blocked && last_turn_ != TimePoint{}) {
    metrics_.backpressure(std::chrono::duration<double>(now.steady - last_turn_).count());
  }
  last_turn_ = now.steady;
  if (now.steady >= next_publish_) publish(now);
}

TimePoint Observer::publish_due() const {
  const bool news = status_.events_delivered != relay_.counts().records_delivered ||
                    status_.flushed_lsn != relay_.flushed_lsn() || status_.confirmed_lsn != relay_.confirmed_lsn();
  return news ? next_publish_ : TimePoint::max();
}

void Observer::publish(const Now& now) {
  next_publish_ = now.steady + std::chrono::milliseconds(100);
  const auto ages = relay_.take_ages();
  age_sum_ += ages.sum;
  status_.received_lsn = relay_.received_lsn();
  status_.flushed_lsn = relay_.flushed_lsn();
  status_.confirmed_lsn = relay_.confirmed_lsn();
  status_.events_in_flight = relay_.records_in_flight();
  status_.bytes_in_flight = relay_.held_bytes();
  status_.buffer_limit_bytes = relay_.budget_bytes();
  status_.transactions_in_flight = relay_.transactions_in_flight();
  status_.events_delivered = relay_.counts().records_delivered;
  status_.oldest_unacked_seconds = std::chrono::duration<double>(relay_.oldest_unacked_age(now)).count();

  if (samples_.empty() || now.steady - samples_.back().time >= std::chrono::seconds(1)) {
    samples_.push_back({.time = now.steady, .delivered = status_.events_delivered, .age_sum = age_sum_});
    if (samples_.size() > 11) samples_.pop_front();
  }
  const auto& oldest = samples_.front();
  const double seconds = std::chrono::duration<double>(now.steady - oldest.time).count();
  const auto events = static_cast<double>(status_.events_delivered - oldest.delivered);
  status_.events_per_second = seconds > 0 ? events / seconds : 0;
  status_.commit_to_ack_seconds = events > 0 ? (age_sum_ - oldest.age_sum) / events : 0;

  board_.publish(status_);
  metrics_.log_lines_dropped(log_lines_dropped());
  metrics_.update(status_, relay_.counts(), ages, relay_.null_keys());
}

}  // namespace outbox
