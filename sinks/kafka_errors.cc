#include "sinks/kafka_errors.h"

#include <fmt/format.h>

namespace outbox {

FailureClass failure_class_of(rd_kafka_resp_err_t code) {
  switch (code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
      return FailureClass::too_large;
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
      return FailureClass::invalid_topic;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      return FailureClass::unknown_topic;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      return FailureClass::unauthorized;
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:  // The other records of the topic may name one that there is.
      return FailureClass::invalid_record;
    default:
      return FailureClass::other;
  }
}

bool is_fencing(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
         code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

bool failed_for_another(rd_kafka_resp_err_t code) {
  if (is_fencing(code)) return true;
  switch (code) {
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER:
    case RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID:
    case RD_KAFKA_RESP_ERR__STATE:  // The transaction of both is to be aborted.
    case RD_KAFKA_RESP_ERR_INVALID_TXN_STATE:
      return true;
    default:
      return false;
  }
}

bool fails_whole_batch(rd_kafka_resp_err_t code) {
  const auto failure_class = failure_class_of(code);
  const bool by_broker = code > 0;
  const bool by_record = failure_class == FailureClass::too_large || failure_class == FailureClass::invalid_record;
  return by_broker && by_record;
}

bool is_authentication_failure(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__SSL ||
         code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
}

std::string remedy_for(rd_kafka_resp_err_t code, std::string_view topic) {
  switch (code) {
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
      return fmt::format("Create it: kafka-topics.sh --bootstrap-server … --create --topic {} --partitions …", topic);
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return fmt::format("Topic {} has no such partition: mend route.partition, or add partitions", topic);
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      return fmt::format(
          "Grant it: kafka-acls.sh --bootstrap-server … --add --allow-principal User:… --operation Write "
          "--operation Describe --topic {}",
          topic);
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      return "Grant IdempotentWrite on the cluster to the relay's principal (brokers before 3.0 need it)";
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
      return fmt::format(
          "Raise max.message.bytes of topic {} and sink.kafka.properties.message.max.bytes above its size, and "
          "keep sink.kafka.properties.batch.size at or below the topic's limit",
          topic);
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
      return fmt::format("A compacted topic wants a key: check cleanup.policy of {} and route.key", topic);
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
      return "Mend route.topic: only ASCII letters, digits, '.', '_' and '-' may stand in a topic's name";
    default:
      return "See the broker's log";
  }
}

}  // namespace outbox
