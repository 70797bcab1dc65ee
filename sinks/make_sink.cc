#include "sinks/make_sink.h"

#include <cstdio>

#include "sinks/kafka_checkpoint.h"
#include "sinks/kafka_conf.h"
#include "sinks/stdout_sink.h"

namespace outbox {

std::unique_ptr<Sink> make_sink(const Config& config, TransactionIdentity identity, CheckpointSource checkpoint,
                                KafkaLog log, std::shared_ptr<KafkaMemory> memory) {
  if (!config.sink.kafka) return std::make_unique<StdoutSink>(stdout);
  const auto& kafka = *config.sink.kafka;
  if (config.delivery.guarantee == Guarantee::exactly_once) {
    return std::make_unique<KafkaTransactions>(kafka, config.file, std::move(identity), std::move(checkpoint),
                                               std::move(log), std::move(memory));
  }
  if (!config.delivery.checkpoint_topic.empty()) {
    return std::make_unique<KafkaCheckpoint>(kafka, config.file, std::move(identity.checkpoint), std::move(checkpoint),
                                             std::move(log), std::move(memory));
  }
  return std::make_unique<KafkaSink>(kafka, config.file, std::move(log), std::move(memory));
}

void check_sink(const Config& config, std::vector<ConfigProblem>& problems) {
  if (config.sink.kafka) make_kafka_conf(*config.sink.kafka, problems);
}

}  // namespace outbox
