#include "sinks/kafka_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>

#include "sinks/kafka_conf.h"
#include "sinks/kafka_errors.h"

namespace outbox {

namespace {

using KafkaMetadata = std::unique_ptr<const rd_kafka_metadata_t, FreeWith<rd_kafka_metadata_destroy>>;

KafkaFinding unreachable(const KafkaConfig& config, const std::string& why) {
  return {.fine = false,
          .reachable = false,
          .text = fmt::format("Kafka at {}: {}. Check sink.kafka.brokers, and the security settings under "
                              "sink.kafka.properties",
                              fmt::join(config.brokers, ", "), why)};
}

}  // namespace

std::vector<KafkaFinding> check_kafka_topics(const KafkaConfig& config, const std::vector<std::string>& topics,
                                             std::chrono::milliseconds timeout) {
  std::vector<ConfigProblem> problems;
  auto conf = make_kafka_conf(config, problems);
  if (!conf) return {{.fine = false, .reachable = true, .text = problems.front().message}};
  std::array<char, 512> error{};
  rd_kafka_conf_set(conf.get(), "log.queue", "false", nullptr, 0);
  rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
  const KafkaProducer producer(rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), error.data(), error.size()));
  if (!producer) return {{.fine = false, .reachable = true, .text = error.data()}};
  (void)conf.release();

  const rd_kafka_metadata_t* raw = nullptr;
  const auto code = rd_kafka_metadata(producer.get(), 1, nullptr, &raw, static_cast<int>(timeout.count()));
  const KafkaMetadata metadata(raw);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return {unreachable(config, rd_kafka_err2str(code))};

  std::vector<KafkaFinding> findings{
      {.fine = true, .reachable = true, .text = fmt::format("Kafka answers, {} brokers", metadata->broker_cnt)}};
  std::map<std::string, int> partitions;
  for (int index = 0; index < metadata->topic_cnt; ++index) {
    partitions[metadata->topics[index].topic] = metadata->topics[index].partition_cnt;
  }
  for (const auto& topic : topics) {
    if (const auto found = partitions.find(topic); found != partitions.end()) {
      findings.push_back(
          {.fine = true, .reachable = true, .text = fmt::format("topic {} has {} partitions", topic, found->second)});
    } else {
      findings.push_back({.fine = false,
                          .reachable = true,
                          .text = fmt::format("topic {} does not exist, or may not be described. {}", topic,
                                              remedy_for(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, topic))});
    }
  }
  return findings;
}

}  // namespace outbox
