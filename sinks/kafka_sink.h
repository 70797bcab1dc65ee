// Records to Apache Kafka through librdkafka's idempotent producer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/config.h"
#include "sinks/kafka_conf.h"
#include "sinks/kafka_handles.h"
#include "sinks/partition_counts.h"
#include "sinks/sink.h"

namespace outbox {

// What librdkafka wants to be logged, already free of payloads and keys. `level` is syslog's.
using KafkaLog = std::function<void(int level, const std::string& text)>;

// A producer whose records are acknowledged by all in-sync replicas, in order per key, and never time out: while a
// broker is away the queue fills and send() says `full`. Destroying it gives up whatever is unreported: those
// records may or may not have been written.
class KafkaSink final : public Sink {
 public:
  // Does not wait for a broker. `extra` are properties on top of those of the file. Throws ConfigError for properties
  // that librdkafka refuses.
  KafkaSink(const KafkaConfig& config, const std::string& config_file, KafkaLog log, const KafkaSettings& extra = {});
  ~KafkaSink() override;

  SendResult send(const Record& record, Ticket ticket) override;
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
  void throw_if_fatal() const;
  void take_report(const rd_kafka_message_t* message, DeliveryReports& reports);

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  KafkaLog log_;
  int event_fd_ = -1;
  PartitionCounts partition_counts_;  // Before the producer, whose threads call it.
  // Destroyed in reverse: topics and queue before the producer that they belong to.
  KafkaProducer producer_;
  KafkaQueue queue_;
  std::unordered_map<std::string, KafkaTopic, TextHash, std::equal_to<>> topics_;
  std::vector<DeliveryFailure> refused_at_once_;  // By send(); reported by the next collect().
};

// Whether this error says that another producer has taken over, or that the broker has timed a transaction out.
bool is_fencing(rd_kafka_resp_err_t code);

// What a person can do about a record that was refused with this code.
std::string remedy_for(rd_kafka_resp_err_t code, std::string_view topic);

}  // namespace outbox
