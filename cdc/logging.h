// Log lines: to standard error, as text or as JSON.
#pragma once

#include <string>

#include "config/config.h"

namespace outbox {

// Before a configuration is read: text at INFO.
void start_logging();
void configure_logging(const LogConfig& config);

// What librdkafka says, at its own level. A text is not repeated within half a minute.
void log_kafka(int syslog_level, const std::string& text);

}  // namespace outbox
