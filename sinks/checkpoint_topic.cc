#include "sinks/checkpoint_topic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <array>
#include <thread>

#include "sinks/kafka_sink.h"

namespace outbox {

namespace {

using std::chrono::milliseconds;

std::chrono::steady_clock::time_point in(milliseconds span) { return std::chrono::steady_clock::now() + span; }

[[noreturn]] void unavailable(const KafkaConfig& config) {
  throw KafkaUnavailable(fmt::format(
      "Kafka at {} does not answer. Check sink.kafka.brokers, and the security settings under sink.kafka.properties",
      fmt::join(config.brokers, ", ")));
}

void say_nothing(int /*level*/, const std::string& /*text*/) {}

}  // namespace

bool create_checkpoint_topic(const KafkaConfig& config, const std::string& config_file, const CheckpointTopic& topic,
                             milliseconds timeout) {
  KafkaSink client(config, config_file, say_nothing);
  std::array<char, 512> error{};
  const KafkaNewTopic wanted(rd_kafka_NewTopic_new(topic.name.c_str(), 1, -1, error.data(), error.size()));
  if (!wanted) throw CheckpointUnusable(fmt::format("checkpoint topic \"{}\": {}", topic.name, error.data()));
  rd_kafka_NewTopic_set_config(wanted.get(), "cleanup.policy", "compact");
  const KafkaQueue queue(rd_kafka_queue_new(client.producer()));
  auto* one = wanted.get();
  const KafkaAdminOptions options(rd_kafka_AdminOptions_new(client.producer(), RD_KAFKA_ADMIN_OP_CREATETOPICS));
  rd_kafka_AdminOptions_set_request_timeout(options.get(), static_cast<int>(timeout.count()), nullptr, 0);
  rd_kafka_CreateTopics(client.producer(), &one, 1, options.get(), queue.get());
  const KafkaEvent event(rd_kafka_queue_poll(queue.get(), static_cast<int>(timeout.count())));
  if (!event || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) unavailable(config);
  std::size_t count = 0;
  const auto** topics = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  const auto code = count == 1 ? rd_kafka_topic_result_error(topics[0]) : RD_KAFKA_RESP_ERR_UNKNOWN;
  if (code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) return false;
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw CheckpointUnusable(fmt::format(
        "checkpoint topic \"{0}\" cannot be made: {1}. Make it: kafka-topics.sh --bootstrap-server … --create "
        "--topic {0} --partitions 1 --config cleanup.policy=compact, and run init again",
        topic.name,
        rd_kafka_topic_result_error_string(topics[0]) != nullptr ? rd_kafka_topic_result_error_string(topics[0])
                                                                 : rd_kafka_err2str(code)));
  }
  return true;
}

std::optional<StoredCheckpoint> read_checkpoint(const KafkaConfig& config, const std::string& config_file,
                                                const CheckpointTopic& topic, milliseconds timeout) {
  CheckpointReader reader(config, config_file, topic, CheckpointReader::OnNone::say_so);
  const auto deadline = in(timeout);
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto stored = reader.turn()) {
      if (stored->text.empty()) return std::nullopt;
      return stored;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  unavailable(config);
}

void write_checkpoint(const KafkaConfig& config, const std::string& config_file, const CheckpointTopic& topic,
                      const std::string& text, milliseconds timeout) {
  KafkaSink sink(config, config_file, say_nothing);
  const Record record{
      .topic = topic.name, .key = topic.key, .value = text, .headers = {}, .partition = 0, .timestamp_ms = 0};
  DeliveryReports reports;
  if (sink.send(record, Ticket{0}) == Sink::SendResult::refused) reports.failed.push_back(sink.refusal());
  const auto deadline = in(timeout);
  while (std::chrono::steady_clock::now() < deadline) {
    sink.collect(reports);
    if (!reports.failed.empty()) {
      throw CheckpointUnusable(fmt::format("checkpoint topic \"{}\" takes no record: {}. {}", topic.name,
                                           reports.failed.front().reason, reports.failed.front().remedy));
    }
    if (!reports.delivered.empty()) return;
    pollfd one{.fd = sink.event_fd(), .events = POLLIN, .revents = 0};
    poll(&one, 1, 100);
  }
  unavailable(config);
}

}  // namespace outbox
