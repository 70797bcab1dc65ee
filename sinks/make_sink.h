// The sink that a configuration asks for.
#pragma once

#include <memory>

#include "config/config.h"
#include "config/load.h"
#include "sinks/kafka_sink.h"
#include "sinks/sink.h"

namespace outbox {

// Throws ConfigError for properties that the sink's library refuses.
// `memory` is kept from one sink of a process to the next.
std::unique_ptr<Sink> make_sink(const Config& config, KafkaLog log, std::shared_ptr<KafkaMemory> memory);

// The same refusals without a sink.
void check_sink(const Config& config, std::vector<ConfigProblem>& problems);

}  // namespace outbox
