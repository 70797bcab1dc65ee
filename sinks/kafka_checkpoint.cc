#include "sinks/kafka_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

namespace outbox {

namespace {

// Of the checkpoint record, which the caller never sees.
constexpr Ticket checkpoint_ticket{~std::uint64_t{0}};

}  // namespace

KafkaCheckpoint::KafkaCheckpoint(const KafkaConfig& config, const std::string& config_file, CheckpointTopic topic,
                                 CheckpointSource checkpoint, KafkaLog log, std::shared_ptr<KafkaMemory> memory)
    : topic_(topic),
      checkpoint_(std::move(checkpoint)),
      sink_(config, config_file, std::move(log), std::move(memory)),
      reader_(std::make_unique<CheckpointReader>(config, config_file, std::move(topic))) {}

Sink::SendResult KafkaCheckpoint::send(const Record& record, Ticket ticket) {
  return reader_ ? SendResult::full : sink_.send(record, ticket);
}

bool KafkaCheckpoint::write_checkpoint() {
  if (reader_) return false;
  const auto text = checkpoint_();
  const Record record{
      .topic = topic_.name, .key = topic_.key, .value = text, .headers = {}, .partition = 0, .timestamp_ms = 0};
  const auto result = sink_.send(record, checkpoint_ticket);
  if (result == SendResult::refused) throw_unusable(sink_.refusal());
  return result == SendResult::accepted;
}

void KafkaCheckpoint::collect(DeliveryReports& reports) {
  try {
    sink_.collect(reports);
  } catch (const SinkBroken&) {
    take_own(reports);
    throw;
  }
  take_own(reports);
  if (!reader_) return;
  reports.stored_checkpoint = reader_->turn();
  if (reports.stored_checkpoint) reader_.reset();
}

// The caller knows nothing of the checkpoint's record.
void KafkaCheckpoint::take_own(DeliveryReports& reports) const {
  reports.checkpoint_written = std::erase(reports.delivered, checkpoint_ticket) > 0;
  std::erase(reports.given_up, checkpoint_ticket);
  const auto own = std::find_if(reports.failed.begin(), reports.failed.end(),
                                [](const DeliveryFailure& each) { return each.ticket == checkpoint_ticket; });
  if (own == reports.failed.end()) return;
  const auto failure = *own;
  reports.failed.erase(own);
  throw_unusable(failure);
}

void KafkaCheckpoint::throw_unusable(const DeliveryFailure& failure) const {
  throw CheckpointUnusable(
      fmt::format("checkpoint topic \"{}\" takes no record: {}. {}", topic_.name, failure.reason, failure.remedy));
}

std::chrono::milliseconds KafkaCheckpoint::collect_within() const {
  return reader_ ? std::chrono::milliseconds(5) : std::chrono::milliseconds::max();
}

}  // namespace outbox
