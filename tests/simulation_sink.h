// A model of Kafka for the simulation, and the judge of what arrives in it.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "sinks/sink.h"
#include "tests/simulation_server.h"

namespace outbox::simulation {

// Everything that ever became durable, over all sinks, processes and histories; and the first promise that was broken.
class Judge {
 public:
  void durable(const Event& event) {
    if (!delivered_.insert(event.number).second) {
      ++duplicates;
      return;
    }
    auto& newest = newest_of_key_[event.key];
    // librdkafka goes on after a record that a broker refuses for good: that key's order is lost by then.
    if (event.number < newest && refused_keys_.count(event.key) == 0) {
      accuse("event " + std::to_string(event.number) + " of key " + event.key + " came after " +
             std::to_string(newest));
    }
    newest = std::max(newest, event.number);
  }
  void refused(const Event& event) {
    refused_keys_.insert(event.key);
    ++refusals;
  }
  // The relay was told.
  void acknowledged(const Event& event) { acknowledged_.insert(event.number); }
  void sent(const Event& event) {
    if (acknowledged_.count(event.number) + acknowledged_before_.count(event.number) != 0) {
      accuse("event " + std::to_string(event.number) + " was acknowledged in this process and is sent again");
    }
  }
  // The process stopped with all of it confirmed: the slot knows, until the server forgets.
  void stopped_cleanly() {
    acknowledged_before_.merge(acknowledged_);
    acknowledged_.clear();
  }
  void server_forgets() { acknowledged_before_.clear(); }
  // The process that knew is dead, or what it knew is of another history.
  void forget_acknowledged() {
    acknowledged_.clear();
    acknowledged_before_.clear();
  }

  bool delivered(std::uint64_t number) const { return delivered_.count(number) != 0; }
  const std::set<std::uint64_t>& delivered() const { return delivered_; }

  void accuse(const std::string& what) {
    if (violation.empty()) violation = what;
  }

  std::string violation;
  std::uint64_t duplicates = 0;
  std::uint64_t refusals = 0;

 private:
  std::set<std::uint64_t> delivered_;
  std::set<std::uint64_t> acknowledged_;         // By the process that runs.
  std::set<std::uint64_t> acknowledged_before_;  // By processes that stopped cleanly.
  std::set<std::string> refused_keys_;
  std::map<std::string, std::uint64_t> newest_of_key_;
};

class ModelSink final : public Sink {
 public:
  ModelSink(Random& random, Judge& judge, const bool& faults)
      : random_(random), judge_(judge), faults_(faults), room_(1 + below(random, 20)) {}

  // Given up: what is on its way may still arrive, in order, unreported.
  ~ModelSink() override {
    for (auto& partition : partitions_) {
      for (auto survivors = below(random_, partition.size() + 1); survivors > 0; --survivors) {
        judge_.durable(partition.front().event);
        partition.pop_front();
      }
    }
  }

  SendResult send(const Record& record, Ticket ticket) override {
    std::size_t out = 0;
    for (const auto& partition : partitions_) out += partition.size();
    if (out >= room_ || (faults_ && chance(random_, 0.02))) return SendResult::full;
    const Event event{.number = std::stoull(std::string(*record.value)), .key = std::string(*record.key)};
    judge_.sent(event);
    auto& partition = partitions_[static_cast<std::size_t>(event.key.back()) % partitions_.size()];
    partition.push_back({event, ticket, std::string(record.topic)});
    return SendResult::accepted;
  }

  // A moment passes on the brokers: each partition at its own pace.
  void turn() {
    for (auto& partition : partitions_) {
      if (partition.empty() || chance(random_, 0.6)) continue;
      const auto out = partition.front();
      partition.pop_front();
      if (faults_ && chance(random_, 0.002)) {
        judge_.refused(out.event);
        reports_.push_back({out, true});
      } else {
        judge_.durable(out.event);
        reports_.push_back({out, false});
      }
    }
  }

  void collect(DeliveryReports& reports) override {
    for (auto count = below(random_, reports_.size() + 1); count > 0; --count) {
      const auto& [out, refused] = reports_.front();
      if (refused) {
        const bool by_its_topic = out.topic == "t";
        reports.failed.push_back({.ticket = out.ticket,
                                  .topic = out.topic,
                                  .reason = "refused",
                                  .remedy = "",
                                  .failure_class = by_its_topic ? FailureClass::too_large : FailureClass::other});
      } else {
        reports.delivered.push_back(out.ticket);
        judge_.acknowledged(out.event);
      }
      reports_.pop_front();
    }
    if (faults_ && chance(random_, 0.001)) throw SinkBroken("broken");
  }

  int event_fd() const override { return -1; }

 private:
  struct Out {
    Event event;
    Ticket ticket;
    std::string topic;
  };
  struct Report {
    Out out;
    bool refused;
  };

  Random& random_;
  Judge& judge_;
  const bool& faults_;
  std::size_t room_;
  std::array<std::deque<Out>, 3> partitions_;
  std::deque<Report> reports_;
};

}  // namespace outbox::simulation
