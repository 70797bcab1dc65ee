#include "sinks/checkpoint_reader.h"

#include <fmt/format.h>

#include <array>

#include "config/load.h"
#include "sinks/kafka_conf.h"

namespace outbox {

namespace {

// Compaction leaves the head of the log alone, and each transaction adds a marker.
constexpr std::int64_t first_tail = 1000;
constexpr int admin_timeout_ms = 10000;

KafkaConsumer make_consumer(const KafkaConfig& config, const std::string& config_file) {
  std::vector<ConfigProblem> problems;
  auto conf = make_kafka_conf(config, problems);
  if (!conf) throw ConfigError(config_file, std::move(problems));
  std::array<char, 512> error{};
  const auto set = [&](const char* name, const char* value) {
    rd_kafka_conf_set(conf.get(), name, value, error.data(), error.size());
  };
  set("log.queue", "false");
  rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
  set("enable.partition.eof", "true");
  set("isolation.level", "read_committed");
  set("auto.offset.reset", "earliest");
  // The end of the log is told by a fetch that comes back empty.
  set("fetch.wait.max.ms", "10");
  set("enable.auto.commit", "false");
  set("enable.auto.offset.store", "false");
  KafkaConsumer consumer(rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), error.data(), error.size()));
  if (!consumer) throw ConfigError(config_file, {{{}, fmt::format("sink.kafka: {}", error.data())}});
  (void)conf.release();
  return consumer;
}

}  // namespace

std::string no_checkpoint_text(const std::string& topic) {
  return fmt::format(
      "checkpoint topic \"{}\" holds no checkpoint, so what was sent already is not known. If this slot never ran with "
      "it, run outbox-relay init; if the topic was lost, run outbox-relay init --reset-checkpoint: what lies between "
      "the slot's position and the last record sent is then sent again",
      topic);
}

CheckpointReader::CheckpointReader(const KafkaConfig& config, const std::string& config_file, CheckpointTopic topic,
                                   OnNone on_none)
    : wanted_(std::move(topic)), on_none_(on_none), consumer_(make_consumer(config, config_file)) {
  admin_queue_.reset(rd_kafka_queue_new(consumer_.get()));
  queue_.reset(rd_kafka_queue_new(consumer_.get()));
  topic_.reset(rd_kafka_topic_new(consumer_.get(), wanted_.name.c_str(), nullptr));
  if (!topic_) throw CheckpointUnusable(fmt::format("\"{}\" is no topic name", wanted_.name));
  ask_for_settings();
}

CheckpointReader::~CheckpointReader() {
  if (tail_ > 0) rd_kafka_consume_stop(topic_.get(), 0);
}

void CheckpointReader::ask_for_settings() {
  const KafkaConfigResource resource(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, wanted_.name.c_str()));
  const KafkaAdminOptions options(rd_kafka_AdminOptions_new(consumer_.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS));
  rd_kafka_AdminOptions_set_request_timeout(options.get(), admin_timeout_ms, nullptr, 0);
  auto* one = resource.get();
  rd_kafka_DescribeConfigs(consumer_.get(), &one, 1, options.get(), admin_queue_.get());
}

// Where the ACL does not let us look, the topic is taken at its word.
bool CheckpointReader::settings_seen() {
  const KafkaEvent event(rd_kafka_queue_poll(admin_queue_.get(), 0));
  if (!event) return false;
  const auto* result = rd_kafka_event_DescribeConfigs_result(event.get());
  if (result == nullptr) return false;
  const auto failed = rd_kafka_event_error(event.get());
  if (failed != RD_KAFKA_RESP_ERR_NO_ERROR) {
    ask_for_settings();  // The broker is away.
    return false;
  }
  std::size_t count = 0;
  const auto** resources = rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (count != 1) return true;
  const auto code = rd_kafka_ConfigResource_error(resources[0]);
  if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
    throw CheckpointUnusable(fmt::format(
        "checkpoint topic \"{}\" does not exist. Run outbox-relay init, which makes it; or make it with one "
        "partition and cleanup.policy=compact, and run init then",
        wanted_.name));
  }
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return true;
  std::size_t entries = 0;
  const auto** configs = rd_kafka_ConfigResource_configs(resources[0], &entries);
  for (std::size_t index = 0; index < entries; ++index) {
    if (std::string_view(rd_kafka_ConfigEntry_name(configs[index])) != "cleanup.policy") continue;
    const char* policy = rd_kafka_ConfigEntry_value(configs[index]);
    if (policy != nullptr && std::string_view(policy) != "compact") {
      throw CheckpointUnusable(
          fmt::format("checkpoint topic \"{0}\" has cleanup.policy={1}, which would delete the checkpoint in time. Run "
                      "kafka-configs.sh --bootstrap-server … --alter --topic {0} --add-config cleanup.policy=compact",
                      wanted_.name, policy));
    }
  }
  return true;
}

void CheckpointReader::read_tail(std::int64_t records) {
  if (tail_ > 0) rd_kafka_consume_stop(topic_.get(), 0);
  constexpr std::int64_t whole_log = 1'000'000;
  at_start_ = records > whole_log;
  tail_ = records;
  const auto offset = at_start_ ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_TAIL(records);
  rd_kafka_consume_start_queue(topic_.get(), 0, offset, queue_.get());
}

void CheckpointReader::take(const rd_kafka_message_t& message) {
  const std::string_view key(static_cast<const char*>(message.key), message.key_len);
  if (key != wanted_.key) {
    throw CheckpointUnusable(fmt::format(
        "checkpoint topic \"{}\" holds a record of \"{}\", and this relay is \"{}\": each slot needs a topic "
        "of its own. Set delivery.checkpoint.topic",
        wanted_.name, key, wanted_.key));
  }
  last_.emplace(static_cast<const char*>(message.payload), message.len);
}

std::optional<StoredCheckpoint> CheckpointReader::turn() {
  if (!settings_known_) {
    settings_known_ = settings_seen();
    if (!settings_known_) return std::nullopt;
    read_tail(first_tail);
  }
  while (const KafkaMessage message{rd_kafka_consume_queue(queue_.get(), 0)}) {
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      take(*message);
      continue;
    }
    if (message->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || message->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
        message->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
      throw CheckpointUnusable(
          fmt::format("checkpoint topic \"{}\" does not exist. Run outbox-relay init, which makes it", wanted_.name));
    }
    if (message->err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
      throw CheckpointUnusable(
          fmt::format("checkpoint topic \"{0}\" may not be read. Grant it: kafka-acls.sh --bootstrap-server … --add "
                      "--allow-principal User:… --operation Read --operation Write --operation Describe --topic {0}",
                      wanted_.name));
    }
    if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) continue;  // The broker is away: librdkafka tries again.
    if (last_) return StoredCheckpoint{std::move(*last_)};
    if (at_start_ && on_none_ == OnNone::say_so) return StoredCheckpoint{};
    if (at_start_) throw CheckpointUnusable(no_checkpoint_text(wanted_.name));
    read_tail(tail_ * 100);
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace outbox
