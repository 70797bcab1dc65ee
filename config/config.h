// What a configuration file says, as plain structs. Every default of the product stands here.
//
// load.h turns YAML into these; nothing here reads, checks or allocates on behalf of a server.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/failure_class.h"

namespace outbox {

// Where a value stands in its file, counted from 1; zero where it is built in.
struct Mark {
  int line = 0;
  int column = 0;
};

// A key and value handed to a library as they are, such as a libpq keyword or a librdkafka property.
struct Property {
  std::string name;
  std::string value;
  Mark mark;
  std::string secret_file = {};  // Where the value was read from; empty where it stands in the configuration.
};

// Whether a command may make a thing that is missing. Only a typed `init` makes it under `never`.
enum class CreatePolicy { never, if_missing };

struct PublicationConfig {
  std::string name = "outbox";
  CreatePolicy create = CreatePolicy::never;
};

// Whether standbys keep a copy of the slot, so that it is there after a failover. `automatic`: where the server can.
enum class FailoverSlot { automatic, on, off };

struct SlotConfig {
  std::string name = "outbox";
  FailoverSlot failover = FailoverSlot::automatic;
  CreatePolicy create = CreatePolicy::never;
};

struct SourceConfig {
  std::string host;           // As libpq takes it: a name, a socket directory, or several with commas.
  std::string port;           // As libpq takes it; empty for its default.
  std::string database;       // Required.
  std::string user;           // Empty for libpq's default.
  std::string password;       // Empty for none; never logged.
  std::string password_file;  // Read again at every connect, so that a rotated secret is picked up.
  std::vector<Property> libpq;
  PublicationConfig publication;
  SlotConfig slot;
  std::chrono::milliseconds release_on_shutdown_after{5000};
};

// Text with `${column}` in it: literal pieces and column references, in order.
struct Template {
  struct Piece {
    enum class Kind { literal, column };
    Kind kind;
    std::string text;  // The literal, or the name between the braces.
  };
  std::vector<Piece> pieces;
  Mark mark;
};

struct TableName {
  std::string schema = "public";
  std::string name = "outbox_events";
};

// The columns that carry an event's parts; only a table that names them otherwise sets these.
struct ColumnNames {
  std::string id = "id";
  std::string aggregate_type = "aggregate_type";
  std::string aggregate_id = "aggregate_id";
  std::string event_type = "event_type";
  std::string payload = "payload";
};

struct HeaderTemplate {
  std::string name;
  Template value;
};

struct RouteConfig {
  Template topic;
  Template key;
  std::optional<Template> partition;    // Unset: chosen by the key.
  std::vector<HeaderTemplate> headers;  // In the order of the file.
};

enum class NullKey { halt, send };
enum class NullPayload { tombstone, empty, halt };

struct OnNullConfig {
  NullKey key = NullKey::halt;
  NullPayload payload = NullPayload::tombstone;
};

struct OutboxConfig {
  TableName table;
  ColumnNames columns;
  RouteConfig route;
  OnNullConfig on_null;
  Mark mark;
};

struct KafkaConfig {
  std::vector<std::string> brokers;             // host:port, at least one.
  std::vector<Property> properties;             // librdkafka's own names; secrets from `NAME_file` are read in.
  std::uint64_t queue_bytes = 8 * 1024 * 1024;  // What librdkafka holds; no more than memory.budget.
};

struct StdoutConfig {};

struct SinkConfig {
  std::optional<KafkaConfig> kafka;  // Exactly one of these is set.
  std::optional<StdoutConfig> stdout_lines;
};

// What a consumer may rely on. exactly_once: Kafka transactions, for read_committed consumers.
enum class Guarantee { at_least_once, exactly_once };

// What becomes of a record that can never be delivered as it is.
enum class OnFailure { halt, dead_letter };

struct DeliveryConfig {
  Guarantee guarantee = Guarantee::at_least_once;
  // Where the relay keeps how far it has come beside the slot; empty for none. exactly_once always has one.
  std::string checkpoint_topic;
  std::array<OnFailure, 6> on_failure{};  // By FailureClass; of all but `other`, which always halts.
  std::string dead_letter_topic;          // Set where one of them is dead_letter.
};

struct MemoryConfig {
  // Bytes of records that are held at once: sent and not yet acknowledged, and the one held back. Zero: derived from
  // the memory limit of the control group.
  std::uint64_t budget_bytes = 0;
};

struct HttpConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9464;
  bool enabled = true;                             // `listen: off` switches the endpoint off.
  std::chrono::milliseconds unready_after{30000};  // Oldest unacknowledged record.
};

enum class LogLevel { debug, info, warn, error };
enum class LogFormat { text, json };

struct LogConfig {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
};

struct ShutdownConfig {
  std::chrono::milliseconds grace{20000};
};

struct Config {
  std::string file;  // As it was named, for messages.
  SourceConfig source;
  std::vector<OutboxConfig> outbox;  // At least one.
  SinkConfig sink;
  DeliveryConfig delivery;
  MemoryConfig memory;
  HttpConfig http;
  LogConfig log;
  ShutdownConfig shutdown;
};

}  // namespace outbox
