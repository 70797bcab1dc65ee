// When the next standby status update is due.
#pragma once

#include <chrono>

#include "cdc/lsn.h"

namespace outbox {

using TimePoint = std::chrono::steady_clock::time_point;

// A confirmation is at most a second late under load and soon after the window has drained; a reply that the
// server asks for goes out at once; no two updates are closer than the shortest gap, so that a server which asks
// in a loop while it shuts down is not answered in a loop.
class StatusSchedule {
 public:
  static constexpr std::chrono::milliseconds shortest_gap{100};
  static constexpr std::chrono::milliseconds longest_confirm_delay{1000};

  // An update goes out at least every `interval`: what keeps the server from dropping us.
  void restart(TimePoint now, std::chrono::milliseconds interval) {
    interval_ = interval;
    last_sent_ = now - shortest_gap;
    confirmed_ = {};
    reply_wanted_ = true;  // The first update tells the server at once that we are there.
  }

  void reply_requested() { reply_wanted_ = true; }

  // `flushed` may be confirmed; `idle`: nothing is undelivered.
  TimePoint due(Lsn flushed, bool idle) const {
    if (reply_wanted_) return last_sent_ + shortest_gap;
    if (flushed > confirmed_) return last_sent_ + (idle ? shortest_gap : longest_confirm_delay);
    return last_sent_ + interval_;
  }

  // Why an update that goes out now does.
  enum class Reason { progress, requested, keepalive };
  Reason reason(Lsn flushed) const {
    if (flushed > confirmed_) return Reason::progress;
    return reply_wanted_ ? Reason::requested : Reason::keepalive;
  }

  void sent(TimePoint now, Lsn flushed) {
    last_sent_ = now;
    confirmed_ = flushed;
    reply_wanted_ = false;
  }

  // The highest position that an update of this stream has carried.
  Lsn confirmed() const { return confirmed_; }

 private:
  std::chrono::milliseconds interval_{10000};
  TimePoint last_sent_;
  Lsn confirmed_;
  bool reply_wanted_ = false;
};

}  // namespace outbox
