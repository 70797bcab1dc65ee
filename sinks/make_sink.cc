#include "sinks/make_sink.h"

#include <cstdio>

#include "sinks/kafka_conf.h"
#include "sinks/stdout_sink.h"

namespace outbox {

std::unique_ptr<Sink> make_sink(const Config& config, KafkaLog log, std::shared_ptr<KafkaMemory> memory) {
  if (config.sink.kafka) {
    return std::make_unique<KafkaSink>(*config.sink.kafka, config.file, std::move(log), std::move(memory));
  }
  return std::make_unique<StdoutSink>(stdout);
}

void check_sink(const Config& config, std::vector<ConfigProblem>& problems) {
  if (config.sink.kafka) make_kafka_conf(*config.sink.kafka, problems);
}

}  // namespace outbox
