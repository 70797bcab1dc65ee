// Whether brokers answer and topics are there, for `check --connect`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "config/config.h"

namespace outbox {

struct KafkaFinding {
  bool fine = false;
  bool reachable = true;  // Whether a broker answered at all.
  std::string text;       // With what to type, where it is not fine.
};

// Waits at most `timeout` for an answer. Creates no topic.
std::vector<KafkaFinding> check_kafka_topics(const KafkaConfig& config, const std::vector<std::string>& topics,
                                             std::chrono::milliseconds timeout);

}  // namespace outbox
