#include "sinks/kafka_sink.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <system_error>
#include <utility>

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

KafkaHeaders make_headers(const std::vector<Header>& headers) {
  KafkaHeaders handle(rd_kafka_headers_new(headers.size()));
  for (const auto& header : headers) {
    rd_kafka_header_add(handle.get(), header.name.data(), static_cast<ssize_t>(header.name.size()), header.value.data(),
                        static_cast<ssize_t>(header.value.size()));
  }
  return handle;
}

// What it says of enable.gapless.guarantee: that it is experimental, and that it has done what it is for.
bool is_of_our_making(std::string_view log_text) {
  return log_text.find("gapless") != std::string_view::npos || log_text.find("Gap-less") != std::string_view::npos;
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

KafkaSink::KafkaSink(const KafkaConfig& config, const std::string& config_file, KafkaLog log,
                     std::shared_ptr<KafkaMemory> memory, const KafkaSettings& extra)
    : log_(std::move(log)), secrets_(config) {
  std::vector<ConfigProblem> problems;
  auto conf = make_kafka_conf(with_current_secrets(config), problems, extra);
  if (!conf) throw ConfigError(config_file, std::move(problems));
  batch_.emplace(std::move(memory), conf.get());
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
  limits_.want(text);
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
  if (failed_for_another(code)) {
    throw_if_fatal();
    stop_sending();
    return SendResult::full;  // The report of the record that failed is on its way.
  }
  refusal_ = {.ticket = ticket,
              .topic = std::string(record.topic),
              .reason = reason_for(code),
              .remedy = remedy_for(code, record.topic),
              .failure_class = failure_class_of(code)};
  return SendResult::refused;
}

void KafkaSink::wake() const {
  const std::uint64_t one = 1;
  (void)!write(event_fd_, &one, sizeof one);
}

void KafkaSink::throw_if_fatal() {
  std::array<char, 512> text{};
  const auto code = rd_kafka_fatal_error(producer_.get(), text.data(), text.size());
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  if (code == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE) return stop_sending();  // A record's failure, reported as such.
  const auto problem = fmt::format("Kafka producer: {}: {}", reason_for(code), text.data());
  if (is_fencing(code)) throw SinkFenced(problem);
  throw SinkBroken(problem);
}

void KafkaSink::take_report(const rd_kafka_message_t* message, DeliveryReports& reports) {
  const auto ticket = from_opaque(message->_private);
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    reports.delivered.push_back(ticket);
    ++delivered_;
    secrets_.worked();
    return;
  }
  throw_if_fatal();  // The producer's end, not a fault of this record.
  const auto code = code_of(message);
  if (code == RD_KAFKA_RESP_ERR__BAD_MSG) {
    throw SinkBroken(fmt::format("Kafka producer: an answer of the broker makes no sense: {}", reason_for(code)));
  }
  stop_sending();
  if (failed_for_another(code)) {
    reports.given_up.push_back(ticket);
    return;
  }
  somebody_failed_ = true;
  if (fails_whole_batch(code) && !batch_->travelled_alone(message)) {
    if (!outdated_) batch_->refused(code);
    outdate(fmt::format("a batch for topic \"{}\" was refused whole: {}. Smaller ones are sent",
                        rd_kafka_topic_name(message->rkt), reason_for(code)),
            "batch_size");
    reports.given_up.push_back(ticket);
    return;
  }
  const std::string name = message->rkt != nullptr ? rd_kafka_topic_name(message->rkt) : "";
  reports.failed.push_back({.ticket = ticket,
                            .topic = name,
                            .reason = reason_for(code),
                            .remedy = remedy_for(code, name),
                            .failure_class = failure_class_of(code)});
}

// What librdkafka takes back from a broker after a failure would go out again, without the record before it: it is
// purged at every turn.
void KafkaSink::stop_sending() {
  if (!std::exchange(stopped_sending_, true)) stopped_at_ = std::chrono::steady_clock::now();
  rd_kafka_purge(producer_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void KafkaSink::outdate(const std::string& text, const char* reason) {
  if (!outdated_) outdated_.emplace(fmt::format("Kafka producer: {}", text), reason);
}

void KafkaSink::throw_if_outdated() {
  if (secrets_.changed_since_failure()) {
    outdate("authentication failed, and the files that hold its secrets have changed", "credentials");
  }
  if (batch_->found_nothing(delivered_))
    outdate("no record is rejected any more: batches are sent again", "batch_size");
  if (!outdated_) return;
  const auto outdated = std::exchange(outdated_, std::nullopt);
  throw SinkOutdated(*outdated);
}

// Cannot happen as far as librdkafka says; what was given up would wait for ever if it did.
void KafkaSink::throw_if_nobody_failed() const {
  constexpr std::chrono::seconds patience{5};
  if (!stopped_sending_ || somebody_failed_ || std::chrono::steady_clock::now() < stopped_at_ + patience) return;
  throw SinkBroken("Kafka producer: stopped for a record whose failure was never reported");
}

void KafkaSink::take_error(rd_kafka_event_t* event) {
  const auto code = rd_kafka_event_error(event);
  if (code == RD_KAFKA_RESP_ERR__FATAL) return throw_if_fatal();
  if (is_authentication_failure(code)) secrets_.failed();
  log_(4, fmt::format("Kafka: {}: {}", rd_kafka_err2name(code), rd_kafka_event_error_string(event)));
}

void KafkaSink::take_event(rd_kafka_event_t* event, DeliveryReports& reports) {
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR:
      while (const auto* message = rd_kafka_event_message_next(event)) take_report(message, reports);
      return;
    case RD_KAFKA_EVENT_ERROR:
      take_error(event);
      return;
    case RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT: {
      const auto limit = limits_.take(event);
      if (limit && batch_->limited_to(*limit)) {
        outdate(fmt::format("a topic takes no more than {} bytes at once, less than batch.size", *limit), "batch_size");
      }
      return;
    }
    case RD_KAFKA_EVENT_LOG: {
      const char* facility = nullptr;
      const char* text = nullptr;
      int level = 0;
      const bool has_text = rd_kafka_event_log(event, &facility, &text, &level) == 0;
      if (has_text && !is_of_our_making(text)) {
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
  if (stopped_sending_) stop_sending();
  limits_.ask(producer_.get(), queue_.get());
  while (const KafkaEvent event{rd_kafka_queue_poll(queue_.get(), 0)}) {
    take_event(event.get(), reports);
  }
  for (const auto& change : partition_counts_.changes()) log_(4, "Kafka: " + change);
  throw_if_outdated();
  throw_if_nobody_failed();
}

}  // namespace outbox
