// Log lines: to standard error, as text or as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace outbox {

// Before a configuration is read: text at INFO.
void start_logging();
void configure_logging(const LogConfig& config);

// Lines that were not written because whoever reads standard error has stopped reading: a log never holds up events.
std::uint64_t log_lines_dropped();

// What librdkafka says, at its own level. A text is not repeated within half a minute.
void log_kafka(int syslog_level, const std::string& text);

}  // namespace outbox
