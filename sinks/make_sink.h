// The sink that a configuration asks for.
#pragma once

#include <memory>

#include "config/config.h"
#include "config/load.h"
#include "sinks/kafka_sink.h"
#include "sinks/kafka_transactions.h"
#include "sinks/sink.h"

namespace outbox {

// `identity` and `checkpoint` are used where the configuration asks for a checkpoint; `memory` is kept from one sink of
// a process to the next. Throws ConfigError for properties that the sink's library refuses.
std::unique_ptr<Sink> make_sink(const Config& config, TransactionIdentity identity, CheckpointSource checkpoint,
                                KafkaLog log, std::shared_ptr<KafkaMemory> memory);

// The same refusals without a sink.
void check_sink(const Config& config, std::vector<ConfigProblem>& problems);

}  // namespace outbox
