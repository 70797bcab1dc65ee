// What `init` does with a checkpoint topic: makes it, looks into it, writes the first checkpoint.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include "config/config.h"
#include "sinks/checkpoint_reader.h"

namespace outbox {

// No broker answered in time.
class KafkaUnavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// These wait, for at most `timeout`. All throw KafkaUnavailable, CheckpointUnusable and ConfigError.

// With one partition, compacted, and the cluster's default replication. False where it is there already.
bool create_checkpoint_topic(const KafkaConfig& config, const std::string& config_file, const CheckpointTopic& topic,
                             std::chrono::milliseconds timeout);

// Nothing where the topic exists and holds no checkpoint.
std::optional<StoredCheckpoint> read_checkpoint(const KafkaConfig& config, const std::string& config_file,
                                                const CheckpointTopic& topic, std::chrono::milliseconds timeout);

void write_checkpoint(const KafkaConfig& config, const std::string& config_file, const CheckpointTopic& topic,
                      const std::string& text, std::chrono::milliseconds timeout);

}  // namespace outbox
