#include "sinks/partition_counts.h"

#include <fmt/format.h>

namespace outbox {

std::int32_t PartitionCounts::choose(const rd_kafka_topic_t* topic, const void* key, std::size_t key_bytes,
                                     std::int32_t partitions, void* watched, void* ticket) {
  static_cast<Watched*>(watched)->partitions.store(partitions, std::memory_order_relaxed);
  return rd_kafka_msg_partitioner_murmur2_random(topic, key, key_bytes, partitions, watched, ticket);
}

rd_kafka_topic_conf_t* PartitionCounts::watch(rd_kafka_t* producer, const std::string& topic) {
  auto* const conf = rd_kafka_default_topic_conf_dup(producer);
  rd_kafka_topic_conf_set_opaque(conf, &topics_.emplace_back(topic));
  rd_kafka_topic_conf_set_partitioner_cb(conf, &PartitionCounts::choose);
  return conf;
}

bool PartitionCounts::had(const rd_kafka_topic_t* topic, std::int32_t partition) {
  const auto* const watched = static_cast<const Watched*>(rd_kafka_topic_opaque(topic));
  return watched != nullptr && partition >= 0 && partition < watched->partitions.load(std::memory_order_relaxed);
}

std::vector<std::string> PartitionCounts::changes() {
  std::vector<std::string> sentences;
  for (auto& each : topics_) {
    const auto partitions = each.partitions.load(std::memory_order_relaxed);
    if (partitions == each.said) continue;
    if (each.said != 0) {
      sentences.push_back(fmt::format(
          "topic \"{}\" has {} partitions and had {}: keys may lie on another one from here on, and consumers may then "
          "see a key's later events before its earlier ones",
          each.topic, partitions, each.said));
    }
    each.said = partitions;
  }
  return sentences;
}

}  // namespace outbox
