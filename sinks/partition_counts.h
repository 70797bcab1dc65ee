// How many partitions each topic has, and that it has changed: keys then lie elsewhere than before.
#pragma once

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace outbox {

// Learns the number where the partition of each record is chosen, since librdkafka tells nobody else without a request.
// Outlives the producer, whose threads call it.
class PartitionCounts {
 public:
  // The configuration to make that topic's handle with: the producer's own, and the murmur2 partitioner under watch.
  // The handle takes it over.
  rd_kafka_topic_conf_t* watch(rd_kafka_t* producer, const std::string& topic);

  // Whether a topic is known to have had that partition: it is then missing because the topic is gone.
  static bool had(const rd_kafka_topic_t* topic, std::int32_t partition);

  // One sentence for each topic whose number is another than at the last call.
  std::vector<std::string> changes();

 private:
  struct Watched {
    explicit Watched(std::string name) : topic(std::move(name)) {}
    const std::string topic;
    std::atomic<std::int32_t> partitions = 0;  // Written by any thread of librdkafka's.
    std::int32_t said = 0;
  };

  static std::int32_t choose(const rd_kafka_topic_t* topic, const void* key, std::size_t key_bytes,
                             std::int32_t partitions, void* watched, void* ticket);

  std::deque<Watched> topics_;  // A deque: librdkafka keeps their addresses.
};

}  // namespace outbox
