// librdkafka for the bench programs: owners, and errors as exceptions.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "bench.h"

namespace bench {

using KafkaConf = std::unique_ptr<rd_kafka_conf_t, FreeWith<rd_kafka_conf_destroy>>;
using KafkaClient = std::unique_ptr<rd_kafka_t, FreeWith<rd_kafka_destroy>>;
using KafkaTopic = std::unique_ptr<rd_kafka_topic_t, FreeWith<rd_kafka_topic_destroy>>;
using KafkaMessage = std::unique_ptr<rd_kafka_message_t, FreeWith<rd_kafka_message_destroy>>;
using KafkaPartitions =
    std::unique_ptr<rd_kafka_topic_partition_list_t, FreeWith<rd_kafka_topic_partition_list_destroy>>;

inline void set(const KafkaConf& conf, const std::string& name, const std::string& value) {
  char error[512];
  if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), error, sizeof error) != RD_KAFKA_CONF_OK) {
    throw UsageError(error);
  }
}

inline KafkaClient make_client(rd_kafka_type_t type, KafkaConf conf) {
  char error[512];
  KafkaClient client(rd_kafka_new(type, conf.get(), error, sizeof error));
  if (!client) throw std::runtime_error(error);
  conf.release();  // Owned by the client now; had creation failed, it would still be ours.
  return client;
}

inline void expect(rd_kafka_resp_err_t error, const std::string& doing) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw std::runtime_error(doing + ": " + rd_kafka_err2str(error));
  }
}

}  // namespace bench
