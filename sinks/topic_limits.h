// Asks a cluster for the max.message.bytes of topics, without waiting for the answer.
#pragma once

#include <librdkafka/rdkafka.h>

#include <optional>
#include <string>
#include <vector>

namespace outbox {

class TopicLimits {
 public:
  // Each topic is asked for once.
  void want(const std::string& topic) {
    if (wanted_.size() < most_at_once) wanted_.push_back(topic);
  }

  // Sends what is wanted, unless an answer is still awaited. It arrives in `queue` as an event for take().
  void ask(rd_kafka_t* producer, rd_kafka_queue_t* queue);

  // The smallest limit in an answer; nothing where none may be seen, which the ACL decides.
  std::optional<int> take(rd_kafka_event_t* event);

 private:
  static constexpr std::size_t most_at_once = 1000;

  std::vector<std::string> wanted_;
  bool awaited_ = false;
};

}  // namespace outbox
