// The one list of the keys a file may have.
#include "config/schema.h"

namespace outbox {
namespace {

constexpr std::string_view kKeys[] = {
    "version",
    "source",
    "source.host",
    "source.port",
    "source.database",
    "source.user",
    "source.password",
    "source.password_file",
    "source.libpq",  // Any libpq keyword.
    "source.publication",
    "source.publication.name",
    "source.publication.create",
    "source.slot",
    "source.slot.name",
    "source.slot.create",
    "source.slot.failover",
    "source.release_on_shutdown_after",
    "sink",
    "sink.kafka",
    "sink.kafka.brokers",
    "sink.kafka.properties",  // Any librdkafka property.
    "sink.stdout",
    "delivery",
    "delivery.guarantee",
    "delivery.checkpoint",
    "delivery.checkpoint.topic",
    "delivery.on_failure",
    "delivery.on_failure.too_large",
    "delivery.on_failure.invalid_topic",
    "delivery.on_failure.unknown_topic",
    "delivery.on_failure.unauthorized",
    "delivery.on_failure.invalid_record",
    "delivery.on_failure.unmappable",
    "delivery.dead_letter",
    "delivery.dead_letter.topic",
    "memory",
    "memory.budget",
    "http",
    "http.listen",
    "http.unready_after",
    "log",
    "log.level",
    "log.format",
    "shutdown",
    "shutdown.grace",
    "defaults",
    "outbox",
    "outbox[].table",
    "outbox[].table.schema",
    "outbox[].table.name",
};

// What an entry and `defaults` have in common.
constexpr std::string_view kEntryKeys[] = {
    "columns",
    "columns.id",
    "columns.aggregate_type",
    "columns.aggregate_id",
    "columns.event_type",
    "columns.payload",
    "route",
    "route.topic",
    "route.key",
    "route.partition",
    "route.headers",  // Any name.
    "on_null",
    "on_null.key",
    "on_null.payload",
};

std::vector<std::string> make_known_keys() {
  std::vector<std::string> keys(std::begin(kKeys), std::end(kKeys));
  for (const char* parent : {"defaults.", "outbox[]."}) {
    for (std::string_view key : kEntryKeys) keys.push_back(parent + std::string(key));
  }
  return keys;
}

}  // namespace

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = make_known_keys();
  return keys;
}

std::vector<std::string_view> keys_of(std::string_view path) {
  std::vector<std::string_view> children;
  for (const std::string& key : known_keys()) {
    std::string_view rest = key;
    if (!path.empty()) {
      if (!rest.starts_with(path) || rest.size() <= path.size() || rest[path.size()] != '.') continue;
      rest.remove_prefix(path.size() + 1);
    }
    if (rest.find('.') == std::string_view::npos) children.push_back(rest);
  }
  return children;
}

std::string_view find_elsewhere(std::string_view key) {
  std::string_view found;
  for (std::string_view path : known_keys()) {
    if (path.substr(path.rfind('.') + 1) != key || path.starts_with("defaults.")) continue;
    if (!found.empty()) return {};
    found = path;
  }
  return found;
}

}  // namespace outbox
