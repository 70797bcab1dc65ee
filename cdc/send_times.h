// How long the oldest unacknowledged record has waited, from samples instead of a time per record.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "cdc/status_schedule.h"

namespace outbox {

// Exact to the sampling gap: a record sent between two samples counts as sent at the earlier one.
class SendTimes {
 public:
  static constexpr std::chrono::milliseconds sampling_gap{100};

  // `sent` counts the records that have been sent so far, this one not included.
  void record_sent(std::uint64_t sent, TimePoint now) {
    if (samples_.empty() || now - samples_.back().time >= sampling_gap) {
      samples_.push_back({.first_record = sent, .time = now});
    }
  }

  // `acknowledged` records from the first on are all acknowledged; `sent` have been sent.
  std::chrono::steady_clock::duration oldest_age(std::uint64_t acknowledged, std::uint64_t sent, TimePoint now) {
    while (samples_.size() > 1 && samples_[1].first_record <= acknowledged) samples_.pop_front();
    if (acknowledged >= sent || samples_.empty()) {
      samples_.clear();
      return std::chrono::steady_clock::duration::zero();
    }
    return now - samples_.front().time;
  }

  void clear() { samples_.clear(); }

 private:
  struct Sample {
    std::uint64_t first_record;
    TimePoint time;
  };
  std::deque<Sample> samples_;
};

}  // namespace outbox
