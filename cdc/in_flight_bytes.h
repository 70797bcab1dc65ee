// How many bytes of records are out, by ticket.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "sinks/record.h"

namespace outbox {

// What a record costs while it is out: its bytes, and what the sink's library keeps beside them.
inline std::uint64_t held_bytes(const Record& record) {
  constexpr std::uint64_t beside = 256;
  std::uint64_t bytes = beside + record.key.value_or("").size() + record.value.value_or("").size();
  for (const auto& header : record.headers) bytes += header.name.size() + header.value.size();
  return bytes;
}

class InFlightBytes {
 public:
  // No two tickets that are out are `most_records` or more apart.
  explicit InFlightBytes(std::size_t most_records) : sizes_(most_records) {}

  void sent(Ticket ticket, std::uint64_t bytes) {
    auto& size = sizes_[to_number(ticket) % sizes_.size()];
    size = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
    total_ += size;
  }
  void reported(Ticket ticket) { total_ -= sizes_[to_number(ticket) % sizes_.size()]; }
  void clear() { total_ = 0; }

  std::uint64_t total() const { return total_; }

 private:
  std::vector<std::uint32_t> sizes_;
  std::uint64_t total_ = 0;
};

}  // namespace outbox
