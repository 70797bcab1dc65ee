// A relay between a scripted server and a scripted sink, in the words of the domain:
//
//   begin(42);
//   insert("order-7", "{}");
//   commit_at("0/2A0");
//   EXPECT_EQ(sent(), "orders[order-7]={}");
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cdc/errors.h"
#include "cdc/relay.h"
#include "tests/config_test_support.h"
#include "tests/scripted_sink.h"
#include "tests/wire.h"

namespace outbox {

// The outbox entries of a configuration file with these lines after the three that every file needs.
inline std::vector<OutboxConfig> outbox_of(const std::string& lines) { return parse(kBase + lines).outbox; }

inline const std::string plain_route =
    "defaults: {route: {topic: '${aggregate_type}', key: '${aggregate_id}', headers: {}}}\n";

class RelayTest : public testing::Test {
 protected:
  static constexpr std::size_t max_in_flight = 8;
  static constexpr pgoutput::Oid oid = 16384;
  static inline const std::vector<std::string> columns{"id", "aggregate_type", "aggregate_id", "event_type", "payload"};

  explicit RelayTest(const std::string& config = plain_route, const DeliveryConfig& delivery = {},
                     std::uint64_t budget_bytes = std::numeric_limits<std::uint64_t>::max())
      : outbox(outbox_of(config)), relay(outbox, max_in_flight, delivery, budget_bytes) {
    start("0/100");
  }

  // A new stream; the server describes the table before its first row, as it does.
  void start(const std::string& position, bool same_history = false) {
    relay.start_stream(sink, {.position = lsn(position), .same_history = same_history, .catalog = {}}, now);
    last_end = lsn(position);
    described = false;
  }

  void receive(const std::string& message) { relay.receive(wire::xlog_data(last_end, message), now); }

  void begin(std::uint32_t xid) {
    commit_lsn = Lsn{last_end.value + 8};
    receive(wire::begin(commit_lsn, xid, now.wall));
  }
  void insert(const wire::Value& key, const wire::Value& payload, const wire::Value& type = "orders") {
    if (!described) receive(wire::relation(oid, "public", "outbox_events", columns));
    described = true;
    ++row;
    receive(wire::insert(oid, {"e" + std::to_string(row), type, key, "placed", payload}));
  }
  // `end` is one past the commit record.
  void commit_at(const std::string& end) {
    receive(wire::commit(commit_lsn, lsn(end)));
    last_end = lsn(end);
  }
  void transaction(std::uint32_t xid, const std::vector<std::string>& keys, const std::string& end) {
    begin(xid);
    for (const auto& key : keys) insert(key, "{}");
    commit_at(end);
  }
  void keepalive(const std::string& wal_end, bool reply_requested = false) {
    relay.receive(wire::keepalive(lsn(wal_end), reply_requested), now);
  }

  void collect() { relay.collect(now); }
  void deliver_all() {
    sink.deliver_all();
    collect();
  }
  void pass(std::chrono::milliseconds time) {
    now.steady += time;
    now.wall += time;
  }

  std::string sent() const { return fmt::format("{}", fmt::join(sink.sent, ", ")); }
  std::string flushed() const { return to_string(relay.flushed_lsn()); }

  template <typename Error, typename Action>
  static std::string refusal(Action action) {
    try {
      action();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::vector<OutboxConfig> outbox;
  ScriptedSink sink;
  Relay relay;
  Now now{.steady = TimePoint(std::chrono::hours(1)), .wall = wire::noon};
  Lsn last_end;
  Lsn commit_lsn;
  bool described = false;
  int row = 0;
};

}  // namespace outbox
