#include "sinks/kafka_conf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "config/nearest.h"

namespace outbox {

namespace {

struct Setting {
  const char* name;
  const char* value;
};

// Without these a record may be lost or overtake another; the loader refuses to let a file change them.
constexpr std::array guarantee{
    Setting{"enable.idempotence", "true"},
    Setting{"acks", "all"},
    // A record that timed out would leave a gap in its partition: an outage has to become back-pressure instead.
    Setting{"message.timeout.ms", "0"},
    // What Java producers use; librdkafka's own default puts keys elsewhere.
    Setting{"partitioner", "murmur2_random"},
    // A batch that fails for good would otherwise be overtaken by the next ones while it is decided what becomes of it.
    Setting{"enable.gapless.guarantee", "true"},
    Setting{"log.queue", "true"},
};

// Ours where librdkafka's are meant for something else. A file may change each.
constexpr std::array defaults{
    Setting{"client.id", "outbox-relay"},
    // The loop hands over in bursts when there is something to batch; a lone record need not wait.
    Setting{"linger.ms", "0"},
    // Together with queue.buffering.max.kbytes this bounds the memory; librdkafka's own bound is a gigabyte.
    Setting{"queue.buffering.max.messages", "10000"},
    Setting{"batch.size", "262144"},
    // On before librdkafka 2.10, where it adds up to 40 ms to a lone record.
    Setting{"socket.nagle.disable", "true"},
    Setting{"socket.keepalive.enable", "true"},
    Setting{"reconnect.backoff.ms", "100"},
    Setting{"reconnect.backoff.max.ms", "2000"},
    Setting{"topic.metadata.propagation.max.ms", "10000"},
};

// Before 2.5 there is no such property: metrics of ours pushed to the broker were never asked for.
constexpr Setting no_metrics_push{"enable.metrics.push", "false"};

long number_of(const rd_kafka_conf_t* conf, const char* name) {
  std::array<char, 64> text{};
  std::size_t size = text.size();
  if (rd_kafka_conf_get(conf, name, text.data(), &size) != RD_KAFKA_CONF_OK) return 0;
  return std::strtol(text.data(), nullptr, 10);
}

bool set(rd_kafka_conf_t* conf, const Setting& setting, std::string& error) {
  std::array<char, 512> text{};
  const auto result = rd_kafka_conf_set(conf, setting.name, setting.value, text.data(), text.size());
  error = text.data();
  return result == RD_KAFKA_CONF_OK;
}

// Every name that librdkafka knows, aliases too: the first column of the table that it prints for people.
std::vector<std::string> property_names() {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* table = open_memstream(&text, &size);
  if (table == nullptr) return {};
  rd_kafka_conf_properties_show(table);
  std::fclose(table);
  std::istringstream lines(text);
  std::free(text);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (line.find('|') != std::string::npos) names.push_back(line.substr(0, line.find(' ')));
  }
  return names;
}

// The nearest property to one that librdkafka refuses; nothing where it knows the name and dislikes the value.
std::string suggestion(const std::string& refused) {
  const auto names = property_names();
  if (std::find(names.begin(), names.end(), refused) != names.end()) return {};
  return suggest_nearest(refused, std::vector<std::string_view>(names.begin(), names.end()));
}

// A record that may be sent has to fit into the queue, or it would wait for ever for room.
void widen_queue_for_largest_record(rd_kafka_conf_t* conf) {
  const long needed_kbytes = number_of(conf, "message.max.bytes") / 1024 + 1;
  if (number_of(conf, "queue.buffering.max.kbytes") >= needed_kbytes) return;
  std::string ignored;
  set(conf, {"queue.buffering.max.kbytes", std::to_string(needed_kbytes).c_str()}, ignored);
}

}  // namespace

KafkaConf make_kafka_conf(const KafkaConfig& config, std::vector<ConfigProblem>& problems, const KafkaSettings& extra) {
  const auto before = problems.size();
  KafkaConf conf(rd_kafka_conf_new());
  std::string error;
  for (const auto& setting : defaults) {
    if (!set(conf.get(), setting, error)) problems.push_back({{}, error});
  }
  const auto queue_kbytes = std::to_string(std::max<std::uint64_t>(1, config.queue_bytes / 1024));
  set(conf.get(), {"queue.buffering.max.kbytes", queue_kbytes.c_str()}, error);
  set(conf.get(), no_metrics_push, error);
  for (const auto& property : config.properties) {
    if (!set(conf.get(), {property.name.c_str(), property.value.c_str()}, error)) {
      problems.push_back(
          {property.mark, fmt::format("sink.kafka.properties[{}]: librdkafka {} says: {}{}", property.name,
                                      rd_kafka_version_str(), error, suggestion(property.name))});
    }
  }
  for (const auto& setting : guarantee) {
    if (!set(conf.get(), setting, error)) problems.push_back({{}, error});
  }
  for (const auto& [name, value] : extra) {
    if (!set(conf.get(), {name.c_str(), value.c_str()}, error)) problems.push_back({{}, error});
  }
  const auto brokers = fmt::format("{}", fmt::join(config.brokers, ","));
  if (!set(conf.get(), {"bootstrap.servers", brokers.c_str()}, error)) {
    problems.push_back({{}, error});
  }
  widen_queue_for_largest_record(conf.get());
  if (problems.size() > before) return nullptr;
  return conf;
}

}  // namespace outbox
