#include "sinks/stdout_sink.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

namespace outbox {

std::string to_json_line(const Record& record) {
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](const auto& text) { return text ? Json(*text) : Json(nullptr); };
  Json line;
  line["topic"] = record.topic;
  if (record.partition) line["partition"] = *record.partition;
  line["key"] = text_or_null(record.key);
  line["headers"] = Json::object();
  for (const auto& header : record.headers) line["headers"][std::string(header.name)] = header.value;
  line["timestamp_ms"] = record.timestamp_ms;
  line["value"] = text_or_null(record.value);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

StdoutSink::StdoutSink(std::FILE* file) : file_(file), event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

StdoutSink::~StdoutSink() { close(event_fd_); }

Sink::SendResult StdoutSink::send(const Record& record, Ticket ticket) {
  if (waiting_.size() >= max_waiting) return SendResult::full;
  const auto line = to_json_line(record);
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) {
    throw SinkBroken(fmt::format("standard output: {}", std::strerror(errno)));
  }
  waiting_.push_back(ticket);
  const std::uint64_t one = 1;
  (void)!write(event_fd_, &one, sizeof one);
  return SendResult::accepted;
}

void StdoutSink::collect(DeliveryReports& reports) {
  std::uint64_t wakeups = 0;
  (void)!read(event_fd_, &wakeups, sizeof wakeups);
  if (waiting_.empty()) return;
  if (std::fflush(file_) != 0) throw SinkBroken(fmt::format("standard output: {}", std::strerror(errno)));
  reports.delivered.insert(reports.delivered.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

}  // namespace outbox
