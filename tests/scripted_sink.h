// A sink whose every answer a test decides.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "sinks/sink.h"

namespace outbox {

// As a test writes a record: topic[key]=value, with @partition and {header=value,...} where there are any.
inline std::string shown(const Record& record) {
  const auto text = [](const std::optional<std::string_view>& part) { return part ? std::string(*part) : "NULL"; };
  std::string out(record.topic);
  if (record.partition) out += "@" + std::to_string(*record.partition);
  out += "[" + text(record.key) + "]";
  for (const auto& header : record.headers) {
    out += "{" + std::string(header.name) + ":" + std::string(header.value) + "}";
  }
  return out + "=" + text(record.value);
}

class ScriptedSink final : public Sink {
 public:
  SendResult send(const Record& record, Ticket ticket) override {
    if (out_.size() >= room) return SendResult::full;
    sent.push_back(outbox::shown(record));
    out_.push_back({ticket, std::string(record.topic)});
    return SendResult::accepted;
  }

  void collect(DeliveryReports& reports) override {
    reports.delivered.insert(reports.delivered.end(), delivered_.begin(), delivered_.end());
    reports.failed.insert(reports.failed.end(), failed_.begin(), failed_.end());
    delivered_.clear();
    failed_.clear();
    if (broken) throw SinkBroken("the sink is broken");
  }

  int event_fd() const override { return -1; }

  // The next collect() reports the record at `index` of those that are out, oldest first.
  void deliver(std::size_t index = 0) {
    delivered_.push_back(out_.at(index).ticket);
    out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void deliver_all() {
    while (!out_.empty()) deliver();
  }
  void refuse(std::size_t index = 0) {
    failed_.push_back({.ticket = out_.at(index).ticket,
                       .topic = out_[index].topic,
                       .reason = "MSG_SIZE_TOO_LARGE",
                       .remedy = "Raise max.message.bytes"});
    out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::size_t room = 1000;  // How many records may be out.
  bool broken = false;
  std::vector<std::string> sent;

 private:
  struct Out {
    Ticket ticket;
    std::string topic;
  };
  std::deque<Out> out_;
  std::vector<Ticket> delivered_;
  std::vector<DeliveryFailure> failed_;
};

}  // namespace outbox
