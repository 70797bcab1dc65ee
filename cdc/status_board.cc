#include "cdc/status_board.h"

#include <fmt/format.h>

namespace outbox {

const char* to_string(State state) {
  switch (state) {
    case State::starting:
      return "starting";
    case State::standby:
      return "standby";
    case State::streaming:
      return "streaming";
    case State::blocked:
      return "blocked";
    case State::halted:
      return "halted";
    case State::stopping:
      return "stopping";
  }
  return "unknown";
}

std::string unready_reason(const Status& status, std::chrono::milliseconds unready_after) {
  const bool works =
      status.state == State::streaming || status.state == State::blocked || status.state == State::standby;
  if (!works) {
    return status.reason.empty() ? to_string(status.state)
                                 : fmt::format("{}: {}", to_string(status.state), status.reason);
  }
  const std::chrono::duration<double> limit = unready_after;
  if (status.oldest_unacked_seconds > limit.count()) {
    return fmt::format("the oldest record has waited {:.0f} s for its acknowledgement", status.oldest_unacked_seconds);
  }
  return {};
}

void StatusBoard::publish(const Status& status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

Status StatusBoard::read() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::chrono::steady_clock::duration StatusBoard::since_turn(TimePoint now) const {
  return now.time_since_epoch() - TimePoint::duration(last_turn_.load(std::memory_order_relaxed));
}

}  // namespace outbox
