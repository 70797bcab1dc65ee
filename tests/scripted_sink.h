// A sink whose every answer a test decides.
#pragma once

#include <deque>
#include <functional>
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
    if (refuse_at_once && refuse_at_once(record)) {
      refusal_ = {.ticket = ticket,
                  .topic = std::string(record.topic),
                  .reason = "too large for the producer",
                  .remedy = "Raise message.max.bytes",
                  .failure_class = FailureClass::too_large};
      return SendResult::refused;
    }
    if (out_.size() >= room) return SendResult::full;
    sent.push_back(outbox::shown(record));
    out_.push_back({ticket, std::string(record.topic)});
    return SendResult::accepted;
  }

  DeliveryFailure refusal() const override { return refusal_; }

  void collect(DeliveryReports& reports) override {
    reports.delivered.insert(reports.delivered.end(), delivered_.begin(), delivered_.end());
    reports.failed.insert(reports.failed.end(), failed_.begin(), failed_.end());
    reports.given_up.insert(reports.given_up.end(), given_up_.begin(), given_up_.end());
    delivered_.clear();
    failed_.clear();
    given_up_.clear();
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
  void refuse(std::size_t index = 0, FailureClass failure_class = FailureClass::too_large) {
    failed_.push_back({.ticket = out_.at(index).ticket,
                       .topic = out_[index].topic,
                       .reason = "MSG_SIZE_TOO_LARGE",
                       .remedy = "Raise max.message.bytes",
                       .failure_class = failure_class});
    out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  // What has not left yet when a record before it fails.
  void give_up_all() {
    for (const auto& each : out_) given_up_.push_back(each.ticket);
    out_.clear();
  }

  std::size_t room = 1000;  // How many records may be out.
  bool broken = false;
  std::function<bool(const Record&)> refuse_at_once;  // Which records send() does not take.
  std::vector<std::string> sent;

 private:
  struct Out {
    Ticket ticket;
    std::string topic;
  };
  std::deque<Out> out_;
  std::vector<Ticket> delivered_;
  std::vector<DeliveryFailure> failed_;
  std::vector<Ticket> given_up_;
  DeliveryFailure refusal_;
};

}  // namespace outbox
