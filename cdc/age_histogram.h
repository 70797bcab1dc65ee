// The age of events when they were acknowledged, in buckets, gathered without a lock and handed on in bulk.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace outbox {

struct AgeHistogram {
  // Upper bounds in seconds; the bucket after the last has none.
  static constexpr std::array<double, 14> bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                 0.25,  0.5,    1,     2.5,  10,    60,   600};

  std::array<double, bounds.size() + 1> counts{};
  double sum = 0;

  // Clocks of two machines differ: an event acknowledged before it was committed counts as new.
  void observe(double seconds, std::uint64_t events) {
    seconds = std::max(seconds, 0.0);
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
    counts[static_cast<std::size_t>(bucket)] += static_cast<double>(events);
    sum += seconds * static_cast<double>(events);
  }
};

}  // namespace outbox
