// The sections of a file, each read by a file of its own.
#pragma once

#include <vector>

#include "config/config.h"
#include "config/yaml_reader.h"

namespace outbox {

void read_source(const MapReader& source, SourceConfig& into);
void read_sink(const MapReader& sink, SinkConfig& into);
// After `source` and `sink`, on which its defaults depend.
void read_delivery(const MapReader& delivery, Config& into);
// The part of `delivery` about records that can never be delivered.
void read_failure_policy(const MapReader& delivery, DeliveryConfig& into);
void read_memory(const MapReader& memory, MemoryConfig& into);
void read_http(const MapReader& http, HttpConfig& into);

// `outbox` and `defaults`; where the file has no `outbox`, one entry for the built-in table.
std::vector<OutboxConfig> read_outbox(const MapReader& root);

}  // namespace outbox
