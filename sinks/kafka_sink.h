// Records to Apache Kafka through librdkafka's idempotent producer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/config.h"
#include "sinks/batch_bound.h"
#include "sinks/kafka_conf.h"
#include "sinks/kafka_errors.h"
#include "sinks/kafka_handles.h"
#include "sinks/partition_counts.h"
#include "sinks/secrets_watch.h"
#include "sinks/sink.h"
#include "sinks/topic_limits.h"

namespace outbox {

// What librdkafka wants to be logged, already free of payloads and keys. `level` is syslog's.
using KafkaLog = std::function<void(int level, const std::string& text)>;

// A producer whose records are acknowledged by all in-sync replicas, in order per key, and never time out: while a
// broker is away the queue fills and send() says `full`. Destroying it gives up whatever is unreported: those
// records may or may not have been written.
class KafkaSink final : public Sink {
 public:
  // Does not wait for a broker. Secrets are read from their files as they are now. `memory` is what the sinks of one
  // process learn; `extra` are properties on top of those of the file. Throws ConfigError for properties that
  // librdkafka refuses.
  KafkaSink(const KafkaConfig& config, const std::string& config_file, KafkaLog log,
            std::shared_ptr<KafkaMemory> memory = nullptr, const KafkaSettings& extra = {});
  ~KafkaSink() override;

  SendResult send(const Record& record, Ticket ticket) override;
  DeliveryFailure refusal() const override { return refusal_; }
  void collect(DeliveryReports& reports) override;
  int event_fd() const override { return event_fd_; }
  void expect_topics(const std::vector<std::string>& topics) override;

  // For whoever puts transactions around the records.
  rd_kafka_t* producer() { return producer_.get(); }
  // Makes event_fd() readable. Any thread may call it.
  void wake() const;

 private:
  rd_kafka_topic_t* topic(std::string_view name);
  void take_event(rd_kafka_event_t* event, DeliveryReports& reports);
  void take_error(rd_kafka_event_t* event);
  void throw_if_fatal();
  void stop_sending();
  void outdate(const std::string& text, const char* reason);
  void throw_if_outdated();
  void throw_if_nobody_failed() const;
  void take_report(const rd_kafka_message_t* message, DeliveryReports& reports);

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  KafkaLog log_;
  SecretsWatch secrets_;
  std::optional<BatchBound> batch_;
  TopicLimits limits_;
  int event_fd_ = -1;
  PartitionCounts partition_counts_;  // Before the producer, whose threads call it.
  // Destroyed in reverse: topics and queue before the producer that they belong to.
  KafkaProducer producer_;
  KafkaQueue queue_;
  std::unordered_map<std::string, KafkaTopic, TextHash, std::equal_to<>> topics_;
  DeliveryFailure refusal_;       // Of the record that send() refused last.
  bool stopped_sending_ = false;  // A record failed: none behind it may leave.
  bool somebody_failed_ = false;  // And which one is known.
  std::chrono::steady_clock::time_point stopped_at_;
  std::optional<SinkOutdated> outdated_;  // Thrown once, by the next collect().
  std::uint64_t delivered_ = 0;
};

}  // namespace outbox
