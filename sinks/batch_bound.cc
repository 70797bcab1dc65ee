#include "sinks/batch_bound.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "sinks/kafka_errors.h"

namespace outbox {

namespace {

// Of a topic's limit, for what a batch holds beside its records.
constexpr int tenths_for_records = 9;

int batch_size_of(const rd_kafka_conf_t* conf) {
  std::array<char, 64> text{};
  std::size_t size = text.size();
  if (rd_kafka_conf_get(conf, "batch.size", text.data(), &size) != RD_KAFKA_CONF_OK) return 1;
  return std::atoi(text.data());
}

}  // namespace

BatchBound::BatchBound(std::shared_ptr<KafkaMemory> memory, rd_kafka_conf_t* conf)
    : memory_(memory ? std::move(memory) : std::make_shared<KafkaMemory>()), bytes_(batch_size_of(conf)) {
  one_by_one_ = std::exchange(memory_->one_by_one, false);
  bytes_ = one_by_one_ ? 1 : std::min(bytes_, memory_->batch_bytes.value_or(bytes_));
  rd_kafka_conf_set(conf, "batch.size", std::to_string(bytes_).c_str(), nullptr, 0);
}

bool BatchBound::travelled_alone(const rd_kafka_message_t* message) const {
  return bytes_ <= 1 || message->len + message->key_len >= static_cast<std::size_t>(bytes_);
}

void BatchBound::refused(rd_kafka_resp_err_t code) {
  if (failure_class_of(code) == FailureClass::too_large) {
    const int smaller = std::max(1, bytes_ / 4);
    memory_->batch_bytes = std::min(memory_->batch_bytes.value_or(smaller), smaller);
  } else {
    memory_->one_by_one = true;
  }
}

bool BatchBound::limited_to(int max_message_bytes) {
  const int together = std::max(1, max_message_bytes / 10 * tenths_for_records);
  if (together >= bytes_) return false;
  memory_->batch_bytes = std::min(memory_->batch_bytes.value_or(together), together);
  return true;
}

}  // namespace outbox
