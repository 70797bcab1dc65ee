#include "cdc/logging.h"

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
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

std::atomic<std::uint64_t> dropped_lines{0};

// Standard error, as long as somebody reads it. A pipe that is full, or a journal that stands still, costs lines and
// no more; once it is read again, a line says how many.
class UnhurriedStderr final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    pollfd one{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&one, 1, 0) != 1 || (one.revents & POLLOUT) == 0) {
      ++dropped_lines;
      ++dropped_in_a_row_;
      return;
    }
    if (const auto dropped = std::exchange(dropped_in_a_row_, 0); dropped > 0) {
      write(fmt::format("(nobody read the log: {} lines were dropped)\n", dropped));
      return sink_it_(message);
    }
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write({line.data(), line.size()});
  }
  void flush_() override {}

 private:
  // poll() says that so much can be written to a pipe without waiting.
  static constexpr std::size_t longest = PIPE_BUF;

  static void write(std::string_view line) {
    const bool cut = line.size() > longest;
    std::string text(line.substr(0, cut ? longest - 1 : longest));
    if (cut) text += '\n';
    (void)!::write(STDERR_FILENO, text.data(), text.size());
  }

  std::uint64_t dropped_in_a_row_ = 0;
};

}  // namespace

std::uint64_t log_lines_dropped() { return dropped_lines; }

void start_logging() {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("outbox-relay", std::make_shared<UnhurriedStderr>()));
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
