// From what the loop does to what people and machines see of it: state, metrics, log lines, service status.
#pragma once

#include <deque>
#include <string>

#include "cdc/event_loop.h"
#include "cdc/metrics.h"
#include "cdc/relay.h"
#include "cdc/service_notify.h"
#include "cdc/status_board.h"

namespace outbox {

class Observer {
 public:
  Observer(const std::string& slot_name, Relay& relay) : relay_(relay), metrics_(slot_name) {}

  // One line per change of state, none for its repetition. A halted relay counts as halted until it has come past the
  // position where it halted, however often it tries.
  void enter(State state, const std::string& reason = {});

  bool halted() const { return status_.state == State::halted; }

  // The loop has turned: publishes what it sees, at most ten times a second.
  void turned(const Now& now);

  // When turned() next has news to publish; far away where there are none.
  TimePoint publish_due() const;

  const StatusBoard& board() const { return board_; }
  Metrics& metrics() { return metrics_; }
  ServiceNotify& service() { return service_; }

 private:
  struct Sample {
    TimePoint time;
    std::uint64_t delivered;
    double age_sum;
  };

  void publish(const Now& now);

  Relay& relay_;
  StatusBoard board_;
  Metrics metrics_;
  ServiceNotify service_;
  Status status_;
  Lsn halted_at_;
  TimePoint next_publish_;
  TimePoint last_turn_;
  double age_sum_ = 0;
  std::deque<Sample> samples_;  // One a second, of the last ten.
};

}  // namespace outbox
