// Records as JSON lines, for a first look, for pipes, and for `peek`.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "sinks/sink.h"

namespace outbox {

// One line of JSON a record: topic, partition (where the route names one), key, headers, timestamp_ms, value. Text
// that is no UTF-8 has U+FFFD in its place. A NULL key or value is null.
std::string to_json_line(const Record& record);

// A record counts as delivered once the stream's buffer has been flushed to the file.
class StdoutSink final : public Sink {
 public:
  // Borrows `file`.
  explicit StdoutSink(std::FILE* file);
  ~StdoutSink() override;

  SendResult send(const Record& record, Ticket ticket) override;
  void collect(DeliveryReports& reports) override;
  int event_fd() const override { return event_fd_; }

 private:
  static constexpr std::size_t max_waiting = 1000;

  std::FILE* file_;
  int event_fd_;
  std::vector<Ticket> waiting_;  // Written, not yet flushed.
};

}  // namespace outbox
