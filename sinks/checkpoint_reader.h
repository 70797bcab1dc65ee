// Reads the last record of a checkpoint topic, without ever waiting.
#pragma once

#include <librdkafka/rdkafka.h>

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "sinks/kafka_handles.h"
#include "sinks/sink.h"

namespace outbox {

// A checkpoint topic belongs to one slot: one partition, cleanup.policy=compact, and every record with the same key.
struct CheckpointTopic {
  std::string name;
  std::string key;
};

// Read with read_committed: a checkpoint of an aborted transaction is none. A consumer of its own, without a group.
class CheckpointReader {
 public:
  // What an existing topic without a checkpoint is: an error, or an empty text.
  enum class OnNone { fail, say_so };

  CheckpointReader(const KafkaConfig& config, const std::string& config_file, CheckpointTopic topic,
                   OnNone on_none = OnNone::fail);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  // Goes one step on; the checkpoint once it is found. Throws CheckpointUnusable where there is none, where the topic
  // is set up in a way that could lose it, or where it belongs to another slot.
  std::optional<StoredCheckpoint> turn();

 private:
  void ask_for_settings();
  bool settings_seen();
  void read_tail(std::int64_t records);
  void take(const rd_kafka_message_t& message);

  CheckpointTopic wanted_;
  OnNone on_none_;
  KafkaConsumer consumer_;
  KafkaQueue admin_queue_;
  KafkaQueue queue_;
  KafkaTopic topic_;
  bool settings_known_ = false;
  std::int64_t tail_ = 0;  // How many records before the end reading began; zero before it has.
  bool at_start_ = false;  // Reading began with the first record that there is.
  std::optional<std::string> last_;
};

// What a person types where there is no checkpoint.
std::string no_checkpoint_text(const std::string& topic);

}  // namespace outbox
