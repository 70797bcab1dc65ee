#include "sinks/kafka_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

namespace outbox {

namespace {

// Of the checkpoint record, which the caller never sees.
constexpr Ticket checkpoint_ticket{~std::uint64_t{0}};

}  // namespace

KafkaCheckpoint::KafkaCheckpoint(const KafkaConfig& config, const std::string& config_file, CheckpointTopic topic,
                                 CheckpointSource checkpoint, KafkaLog log)
    : topic_(topic),
      checkpoint_(std::move(checkpoint)),
      sink_(config, config_file, std::move(log)),
      reader_(std::make_unique<CheckpointReader>(config, config_file, std::move(topic))) {}

Sink::SendResult KafkaCheckpoint::send(const Record& record, Ticket ticket) {
  return reader_ ? SendResult::full : sink_.send(record, ticket);
}

bool KafkaCheckpoint::write_checkpoint() {
  if (reader_) return false;
  const auto text = checkpoint_();
  const Record record{
      .topic = topic_.name, .key = topic_.key, .value = text, .headers = {}, .partition = 0, .timestamp_ms = 0};
  return sink_.send(record, checkpoint_ticket) == SendResult::accepted;
}

void KafkaCheckpoint::collect(DeliveryReports& reports) {
  sink_.collect(reports);
  reports.checkpoint_written = std::erase(reports.delivered, checkpoint_ticket) > 0;
  for (const auto& failure : reports.failed) {
    if (failure.ticket != checkpoint_ticket) continue;
    throw CheckpointUnusable(
        fmt::format("checkpoint topic \"{}\" takes no record: {}. {}", topic_.name, failure.reason, failure.remedy));
  }
  if (!reader_) return;
  reports.stored_checkpoint = reader_->turn();
  if (reports.stored_checkpoint) reader_.reset();
}

std::chrono::milliseconds KafkaCheckpoint::collect_within() const {
  return reader_ ? std::chrono::milliseconds(5) : std::chrono::milliseconds::max();
}

}  // namespace outbox
