#include "sinks/kafka_sink.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include "config/load.h"
#include "sinks/kafka_conf.h"

namespace outbox {

namespace {

// librdkafka gives an opaque pointer back with each report: the ticket travels in it, so that no memory is
// allocated per record.
void* to_opaque(Ticket ticket) { return reinterpret_cast<void*>(to_number(ticket)); }
Ticket from_opaque(const void* opaque) { return Ticket{reinterpret_cast<std::uint64_t>(opaque)}; }

std::string reason_for(rd_kafka_resp_err_t code) {
  return fmt::format("{} ({})", rd_kafka_err2str(code), rd_kafka_err2name(code));
}

bool was_purged(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
         code == RD_KAFKA_RESP_ERR__STATE || code == RD_KAFKA_RESP_ERR_INVALID_TXN_STATE || is_fencing(code);
}

KafkaHeaders make_headers(const std::vector<Header>& headers) {
  KafkaHeaders handle(rd_kafka_headers_new(headers.size()));
  for (const auto& header : headers) {
    rd_kafka_header_add(handle.get(), header.name.data(), static_cast<ssize_t>(header.name.size()), header.value.data(),
                        static_cast<ssize_t>(header.value.size()));
  }
  return handle;
}

// When a topic is deleted librdkafka says of its records that there is no such partition, as of one that never was.
rd_kafka_resp_err_t code_of(const rd_kafka_message_t* message) {
  const bool gone = message->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION && message->rkt != nullptr &&
                    PartitionCounts::had(message->rkt, message->partition);
  return gone ? RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC : message->err;
}

// librdkafka takes a null pointer for a NULL key or value; empty text needs an address.
struct Bytes {
  explicit Bytes(const std::optional<std::string_view>& text)
      : address(text ? const_cast<char*>(text->data() ? text->data() : "") : nullptr), size(text ? text->size() : 0) {}
  void* address;
  std::size_t size;
};

}  // namespace

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
    default:
      return "See the broker's log";
  }
}

bool is_fencing(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
         code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

KafkaSink::KafkaSink(const KafkaConfig& config, const std::string& config_file, KafkaLog log,
                     const KafkaSettings& extra)
    : log_(std::move(log)) {
  std::vector<ConfigProblem> problems;
  auto conf = make_kafka_conf(config, problems, extra);
  if (!conf) throw ConfigError(config_file, std::move(problems));
  rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);

  std::array<char, 512> error{};
  producer_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), error.data(), error.size()));
  if (!producer_) throw ConfigError(config_file, {{{}, fmt::format("sink.kafka: {}", error.data())}});
  (void)conf.release();  // Owned by the producer; had its creation failed, it would still be ours.

  queue_.reset(rd_kafka_queue_get_main(producer_.get()));
  rd_kafka_set_log_queue(producer_.get(), queue_.get());
  event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  static constexpr std::uint64_t one = 1;
  rd_kafka_queue_io_event_enable(queue_.get(), event_fd_, &one, sizeof one);
}

KafkaSink::~KafkaSink() {
  rd_kafka_queue_io_event_enable(queue_.get(), -1, nullptr, 0);
  // No record of this sink may come after those of the next one.
  rd_kafka_purge(producer_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  topics_.clear();
  queue_.reset();
  producer_.reset();
  close(event_fd_);
}

rd_kafka_topic_t* KafkaSink::topic(std::string_view name) {
  if (const auto known = topics_.find(name); known != topics_.end()) return known->second.get();
  std::string text(name);
  KafkaTopic handle(rd_kafka_topic_new(producer_.get(), text.c_str(), partition_counts_.watch(producer_.get(), text)));
  if (!handle) return nullptr;
  return topics_.emplace(std::move(text), std::move(handle)).first->second.get();
}

void KafkaSink::expect_topics(const std::vector<std::string>& topics) {
  for (const auto& name : topics) topic(name);
}

Sink::SendResult KafkaSink::send(const Record& record, Ticket ticket) {
  auto* const handle = topic(record.topic);
  rd_kafka_resp_err_t code = rd_kafka_last_error();
  if (handle != nullptr) {
    auto headers = make_headers(record.headers);
    const Bytes key(record.key);
    const Bytes value(record.value);
    code = rd_kafka_producev(producer_.get(), RD_KAFKA_V_RKT(handle),
                             RD_KAFKA_V_PARTITION(record.partition.value_or(RD_KAFKA_PARTITION_UA)),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(key.address, key.size),
                             RD_KAFKA_V_VALUE(value.address, value.size), RD_KAFKA_V_TIMESTAMP(record.timestamp_ms),
                             RD_KAFKA_V_HEADERS(headers.get()), RD_KAFKA_V_OPAQUE(to_opaque(ticket)), RD_KAFKA_V_END);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
      (void)headers.release();  // Owned by the record; had it been refused, they would still be ours.
      return SendResult::accepted;
    }
  }
  if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) return SendResult::full;
  refused_at_once_.push_back({.ticket = ticket,
                              .topic = std::string(record.topic),
                              .reason = reason_for(code),
                              .remedy = remedy_for(code, record.topic),
                              .purged = was_purged(code)});
  wake();
  return SendResult::accepted;
}

void KafkaSink::wake() const {
  const std::uint64_t one = 1;
  (void)!write(event_fd_, &one, sizeof one);
}

void KafkaSink::throw_if_fatal() const {
  std::array<char, 512> text{};
  const auto code = rd_kafka_fatal_error(producer_.get(), text.data(), text.size());
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  const auto problem = fmt::format("Kafka producer: {}: {}", reason_for(code), text.data());
  if (is_fencing(code)) throw SinkFenced(problem);
  throw SinkBroken(problem);
}

void KafkaSink::take_report(const rd_kafka_message_t* message, DeliveryReports& reports) {
  const auto ticket = from_opaque(message->_private);
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    reports.delivered.push_back(ticket);
    return;
  }
  throw_if_fatal();  // The producer's end, not a fault of this record.
  const auto code = code_of(message);
  if (code == RD_KAFKA_RESP_ERR__BAD_MSG) {
    throw SinkBroken(fmt::format("Kafka producer: an answer of the broker makes no sense: {}", reason_for(code)));
  }
  const std::string name = message->rkt != nullptr ? rd_kafka_topic_name(message->rkt) : "";
  reports.failed.push_back(
      {.ticket = ticket,
       .topic = name,
       .reason = reason_for(code),
       .remedy = remedy_for(code, name),
       .purged = was_purged(code)});
}

void KafkaSink::take_event(rd_kafka_event_t* event, DeliveryReports& reports) {
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR:
      while (const auto* message = rd_kafka_event_message_next(event)) take_report(message, reports);
      return;
    case RD_KAFKA_EVENT_ERROR:
      if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__FATAL) throw_if_fatal();
      log_(4, fmt::format("Kafka: {}: {}", rd_kafka_err2name(rd_kafka_event_error(event)),
                          rd_kafka_event_error_string(event)));
      return;
    case RD_KAFKA_EVENT_LOG: {
      const char* facility = nullptr;
      const char* text = nullptr;
      int level = 0;
      if (rd_kafka_event_log(event, &facility, &text, &level) == 0) {
        log_(level, fmt::format("librdkafka {}: {}", facility, text));
      }
      return;
    }
    default:
      return;
  }
}

void KafkaSink::collect(DeliveryReports& reports) {
  std::uint64_t wakeups = 0;
  (void)!read(event_fd_, &wakeups, sizeof wakeups);
  if (!refused_at_once_.empty()) throw_if_fatal();
  for (auto& failure : refused_at_once_) reports.failed.push_back(std::move(failure));
  refused_at_once_.clear();
  while (const KafkaEvent event{rd_kafka_queue_poll(queue_.get(), 0)}) {
    take_event(event.get(), reports);
  }
  for (const auto& change : partition_counts_.changes()) log_(4, "Kafka: " + change);
}

}  // namespace outbox
