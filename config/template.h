// What a template may say in each of its places, as far as that can be known without a row.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"

namespace outbox {

// Whether it has no column in it and so is the same for every event.
bool is_constant(const Template& pattern);

// Why it cannot be a topic, key or partition, or nothing.
std::optional<std::string> refuse_topic(const Template& pattern);
std::optional<std::string> refuse_key(const Template& pattern);
std::optional<std::string> refuse_partition(const Template& pattern);

}  // namespace outbox
