// What one Kafka producer has found out that the next one has to know.
#pragma once

#include <optional>

namespace outbox {

struct KafkaMemory {
  // The most that may travel together: a broker refuses a batch over its topic's max.message.bytes whole. Nothing while
  // no limit is known to be below batch.size.
  std::optional<int> batch_bytes;
  // One record a batch for the next producer alone, to find the one that a broker rejects.
  bool one_by_one = false;
};

}  // namespace outbox
