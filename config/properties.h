// Keys and values that are handed to libpq or librdkafka as they are, and the ones that are
// refused.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/yaml_reader.h"

namespace outbox {

struct RefusedProperty {
  std::string_view name;    // `*` at its start or end stands for anything.
  std::string_view reason;  // What to do instead, or what would break.
};

struct PropertyRules {
  std::string_view library;
  std::span<const RefusedProperty> refused;
  std::span<const std::string_view> secrets;  // `NAME_file` is read for these.
};

extern const PropertyRules kLibpqRules;
extern const PropertyRules kKafkaRules;

// The reason why a property cannot be set, or nothing.
std::optional<std::string_view> find_refusal(const PropertyRules& rules, std::string_view name);

// The properties in the order of the file, secrets read from their files.
std::vector<Property> read_properties(const ValueReader& value, const PropertyRules& rules);

}  // namespace outbox
