// The `sink` section: where the records go.
#include <string>

#include "config/address.h"
#include "config/properties.h"
#include "config/sections.h"

namespace outbox {
namespace {

constexpr const char* kBrokerList = "expected a list of brokers, such as [\"kafka1:9092\", \"kafka2:9092\"]";

void read_brokers(const MapReader& kafka, std::vector<std::string>& into) {
  const auto value = kafka.find("brokers");
  if (!value) {
    kafka.refuse("\"brokers\" is required, such as brokers: [\"kafka1:9092\"]");
    return;
  }
  const auto brokers = value->list(kBrokerList);
  if (!brokers) return;
  if (brokers->empty()) value->refuse("needs at least one broker");
  for (const ValueReader& broker : *brokers) {
    const auto text = broker.text();
    if (!text) continue;
    if (parse_address(*text)) {
      into.push_back(*text);
    } else {
      broker.refuse_found("expected host:port or [ipv6]:port with a port from 1 to 65535");
    }
  }
}

}  // namespace

void read_sink(const MapReader& sink, SinkConfig& into) {
  const auto kafka = sink.find("kafka");
  const auto stdout_lines = sink.find("stdout");
  if (!kafka && !stdout_lines) sink.refuse("\"kafka\" or \"stdout\" is required");
  if (kafka && stdout_lines) sink.refuse("\"kafka\" and \"stdout\" stand here; a relay has exactly one sink");
  if (kafka) {
    if (const auto map = kafka->map()) {
      into.kafka.emplace();
      read_brokers(*map, into.kafka->brokers);
      if (const auto properties = map->find("properties"); properties && !properties->is_null()) {
        into.kafka->properties = read_properties(*properties, kKafkaRules);
      }
    }
  }
  if (stdout_lines && stdout_lines->map()) into.stdout_lines.emplace();
}

}  // namespace outbox
