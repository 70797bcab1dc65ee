// What the loop last said of itself, for the threads that answer HTTP.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "cdc/lsn.h"
#include "cdc/relay.h"

namespace outbox {

enum class State { starting, standby, streaming, blocked, halted, stopping };
inline constexpr std::array all_states{State::starting, State::standby, State::streaming,
                                       State::blocked,  State::halted,  State::stopping};

const char* to_string(State state);

struct Status {
  State state = State::starting;
  std::string reason;  // Why it is not streaming; empty while it is.
  Lsn received_lsn;
  Lsn flushed_lsn;
  Lsn confirmed_lsn;
  std::uint64_t events_in_flight = 0;
  std::uint64_t bytes_in_flight = 0;
  std::uint64_t buffer_limit_bytes = 0;
  std::uint64_t transactions_in_flight = 0;
  std::uint64_t events_delivered = 0;
  double oldest_unacked_seconds = 0;
  double events_per_second = 0;      // Over the last ten seconds.
  double commit_to_ack_seconds = 0;  // Mean of the last ten seconds; zero without events.
};

// Why the relay is not ready; empty where it is. `unready_after`: how old an unacknowledged record may be.
std::string unready_reason(const Status& status, std::chrono::milliseconds unready_after);

// The loop writes, other threads read; every call is short.
class StatusBoard {
 public:
  void publish(const Status& status);
  Status read() const;

  // The loop has turned.
  void turned(TimePoint now) { last_turn_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  // How long ago it last did.
  std::chrono::steady_clock::duration since_turn(TimePoint now) const;

 private:
  mutable std::mutex mutex_;
  Status status_;
  std::atomic<TimePoint::rep> last_turn_{std::chrono::steady_clock::now().time_since_epoch().count()};
};

}  // namespace outbox
