#include "cdc/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cdc/printable.h"

namespace outbox {

namespace {

// %J: the message as a JSON string.
class JsonString final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const nlohmann::json text(std::string(message.payload.data(), message.payload.size()));
    const auto quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonString>(); }
};

// %T: the message on one line.
class PrintableText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const auto text = printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableText>(); }
};

}  // namespace

void start_logging() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("outbox-relay", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  configure_logging({});
}

void configure_logging(const LogConfig& config) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonString>('J');
  formatter->add_flag<PrintableText>('T');
  formatter->set_pattern(config.format == LogFormat::json
                             ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%J})"
                             : "%Y-%m-%dT%H:%M:%S.%eZ %l %T");
  spdlog::set_formatter(std::move(formatter));
  switch (config.level) {
    case LogLevel::debug:
      spdlog::set_level(spdlog::level::debug);
      break;
    case LogLevel::info:
      spdlog::set_level(spdlog::level::info);
      break;
    case LogLevel::warn:
      spdlog::set_level(spdlog::level::warn);
      break;
    case LogLevel::error:
      spdlog::set_level(spdlog::level::err);
      break;
  }
  spdlog::flush_on(spdlog::level::info);
}

void log_kafka(int syslog_level, const std::string& text) {
  constexpr std::chrono::seconds quiet{30};
  constexpr std::size_t most_texts = 100;
  static std::map<std::string, std::chrono::steady_clock::time_point> said;
  const auto now = std::chrono::steady_clock::now();
  if (said.size() > most_texts) said.clear();
  const auto [entry, first] = said.emplace(text, now);
  if (!first && now - entry->second < quiet) return;
  entry->second = now;
  // A broker that is away is back-pressure, not a fault of ours: never above a warning.
  if (syslog_level <= 4) {
    spdlog::warn("{}", text);
  } else {
    spdlog::debug("{}", text);
  }
}

}  // namespace outbox
