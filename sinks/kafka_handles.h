// librdkafka's C handles, owned.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>

namespace outbox {

template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    Free(pointer);
  }
};

using KafkaConf = std::unique_ptr<rd_kafka_conf_t, FreeWith<rd_kafka_conf_destroy>>;
using KafkaQueue = std::unique_ptr<rd_kafka_queue_t, FreeWith<rd_kafka_queue_destroy>>;
using KafkaProducer = std::unique_ptr<rd_kafka_t, FreeWith<rd_kafka_destroy>>;
using KafkaTopic = std::unique_ptr<rd_kafka_topic_t, FreeWith<rd_kafka_topic_destroy>>;
using KafkaEvent = std::unique_ptr<rd_kafka_event_t, FreeWith<rd_kafka_event_destroy>>;
using KafkaConsumer = std::unique_ptr<rd_kafka_t, FreeWith<rd_kafka_destroy>>;
using KafkaMessage = std::unique_ptr<rd_kafka_message_t, FreeWith<rd_kafka_message_destroy>>;
using KafkaError = std::unique_ptr<rd_kafka_error_t, FreeWith<rd_kafka_error_destroy>>;
using KafkaConfigResource = std::unique_ptr<rd_kafka_ConfigResource_t, FreeWith<rd_kafka_ConfigResource_destroy>>;
using KafkaAdminOptions = std::unique_ptr<rd_kafka_AdminOptions_t, FreeWith<rd_kafka_AdminOptions_destroy>>;
using KafkaNewTopic = std::unique_ptr<rd_kafka_NewTopic_t, FreeWith<rd_kafka_NewTopic_destroy>>;
using KafkaHeaders = std::unique_ptr<rd_kafka_headers_t, FreeWith<rd_kafka_headers_destroy>>;

}  // namespace outbox
