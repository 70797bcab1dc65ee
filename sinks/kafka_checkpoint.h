// Records to Kafka as KafkaSink sends them, and beside them a checkpoint whenever the caller asks for one.
#pragma once

#include <memory>
#include <string>

#include "sinks/checkpoint_reader.h"
#include "sinks/kafka_sink.h"

namespace outbox {

// Reports the stored checkpoint first; until then send() says `full`. The checkpoint is written after the records that
// it speaks of are acknowledged, so a crash between the two repeats them.
class KafkaCheckpoint final : public Sink {
 public:
  KafkaCheckpoint(const KafkaConfig& config, const std::string& config_file, CheckpointTopic topic,
                  CheckpointSource checkpoint, KafkaLog log, std::shared_ptr<KafkaMemory> memory = nullptr);

  SendResult send(const Record& record, Ticket ticket) override;
  DeliveryFailure refusal() const override { return sink_.refusal(); }
  void collect(DeliveryReports& reports) override;
  int event_fd() const override { return sink_.event_fd(); }
  void expect_topics(const std::vector<std::string>& topics) override { sink_.expect_topics(topics); }
  bool keeps_checkpoint() const override { return true; }
  bool write_checkpoint() override;
  std::chrono::milliseconds collect_within() const override;

 private:
  void take_own(DeliveryReports& reports) const;
  [[noreturn]] void throw_unusable(const DeliveryFailure& failure) const;

  CheckpointTopic topic_;
  CheckpointSource checkpoint_;
  KafkaSink sink_;
  std::unique_ptr<CheckpointReader> reader_;  // Until the stored checkpoint is found.
};

}  // namespace outbox
