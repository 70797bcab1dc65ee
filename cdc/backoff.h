// How long to wait before trying again: doubling, capped, jittered.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace outbox {

class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds longest, std::uint32_t seed)
      : first_(first), longest_(longest), next_(first), random_(seed) {}

  // Between half of the present wait and the whole, so that relays which lost the same server do not return as one.
  std::chrono::milliseconds next() {
    std::uniform_int_distribution<std::chrono::milliseconds::rep> jitter(next_.count() / 2, next_.count());
    next_ = std::min(next_ * 2, longest_);
    return std::chrono::milliseconds(jitter(random_));
  }

  void reset() { next_ = first_; }

 private:
  std::chrono::milliseconds first_;
  std::chrono::milliseconds longest_;
  std::chrono::milliseconds next_;
  std::mt19937 random_;
};

}  // namespace outbox
