// How many bytes may travel to a broker together.
//
// A broker refuses a batch that is over its topic's max.message.bytes whole, and one with a record that it rejects too.
// librdkafka sends a record of batch.size and more alone. So no record is blamed for what a batch was refused for
// unless it travelled alone; instead the next producer makes smaller batches.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sinks/kafka_memory.h"

namespace outbox {

class BatchBound {
 public:
  // Lowers batch.size in `conf` to what `memory` knows.
  BatchBound(std::shared_ptr<KafkaMemory> memory, rd_kafka_conf_t* conf);

  // Whether a refused record was the only one in its batch.
  bool travelled_alone(const rd_kafka_message_t* message) const;

  // The next producer has to make smaller batches than this one.
  void refused(rd_kafka_resp_err_t code);
  // A topic takes no more than this. Returns whether this producer's batches may be larger.
  bool limited_to(int max_message_bytes);

  // Whether a producer that sent one record a batch has come past what it was made for.
  bool found_nothing(std::uint64_t delivered) const { return one_by_one_ && delivered >= patience; }

  int bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t patience = 5000;  // Records; more than one batch of ours holds.

  std::shared_ptr<KafkaMemory> memory_;
  bool one_by_one_ = false;
  int bytes_ = 0;
};

}  // namespace outbox
