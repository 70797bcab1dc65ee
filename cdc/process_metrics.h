// The standard process_* metrics, read from /proc at each scrape.
#pragma once

#include <string>

namespace outbox {

// In Prometheus text format; what /proc does not show is left out.
std::string process_metrics();

}  // namespace outbox
