// The kinds of reasons for which a record can never be delivered as it is.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace outbox {

enum class FailureClass {
  too_large,       // For its topic, or for the producer.
  invalid_topic,   // No name that Kafka takes.
  unknown_topic,   // The topic does not exist.
  unauthorized,    // The relay's principal may not write there.
  invalid_record,  // What is in it is rejected: no key in a compacted topic, a partition that does not exist.
  unmappable,      // The row does not become a record: a NULL where the route needs a value, a missing column.
  other,           // Nothing that a policy can be set for.
};

// In the order of the enumeration; the names are those of `delivery.on_failure` and of metric labels.
inline constexpr std::array<std::string_view, 7> failure_class_names{
    "too_large", "invalid_topic", "unknown_topic", "unauthorized", "invalid_record", "unmappable", "other"};

constexpr std::string_view to_string(FailureClass failure_class) {
  return failure_class_names[static_cast<std::size_t>(failure_class)];
}

// Whether the next record of the same topic would fail for the same reason.
constexpr bool concerns_whole_topic(FailureClass failure_class) {
  return failure_class == FailureClass::invalid_topic || failure_class == FailureClass::unknown_topic ||
         failure_class == FailureClass::unauthorized;
}

}  // namespace outbox
