// What the relay asks of librdkafka: the guarantee's settings, ours, and the user's on top.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/load.h"
#include "sinks/kafka_handles.h"

namespace outbox {

// librdkafka's name and value of a property.
using KafkaSettings = std::vector<std::pair<std::string, std::string>>;

// The librdkafka property names that would break the guarantee are refused when the file is loaded; here a name
// that librdkafka does not know, or a value that it does not take, is a problem with the place it stands at.
// `extra` comes on top of the file. Returns null where there are problems.
KafkaConf make_kafka_conf(const KafkaConfig& config, std::vector<ConfigProblem>& problems,
                          const KafkaSettings& extra = {});

}  // namespace outbox
