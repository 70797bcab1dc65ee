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
using KafkaHeaders = std::unique_ptr<rd_kafka_headers_t, FreeWith<rd_kafka_headers_destroy>>;

}  // namespace outbox
