// Arbitrary bytes as the frames of one replication stream.
//
// A ProtocolError or HaltError ends a stream; a CHECK, a sanitizer report or any other exception is a fault of ours.
// Input: frame after frame, each a u16 length (big-endian) and its bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cdc/errors.h"
#include "cdc/relay.h"
#include "config/load.h"

namespace outbox {

// Delivers every other record at once and the rest with the next call.
class FuzzSink final : public Sink {
 public:
  SendResult send(const Record& record, Ticket ticket) override {
    bytes += record.topic.size() + record.key.value_or("").size() + record.value.value_or("").size();
    for (const auto& header : record.headers) bytes += header.name.size() + header.value.size();
    if (out_.size() >= 5) return SendResult::full;
    out_.push_back(ticket);
    return SendResult::accepted;
  }
  void collect(DeliveryReports& reports) override {
    for (std::size_t index = 0; index < out_.size(); index += 2) reports.delivered.push_back(out_[index]);
    std::vector<Ticket> rest;
    for (std::size_t index = 1; index < out_.size(); index += 2) rest.push_back(out_[index]);
    out_ = std::move(rest);
  }
  int event_fd() const override { return -1; }
  void give_up() { out_.clear(); }

  std::size_t bytes = 0;

 private:
  std::vector<Ticket> out_;
};

inline void fuzz_stream(std::string_view input) {
  static const auto config = parse_config(
      "version: 1\nsource: {database: d}\nsink: {stdout: {}}\n"
      "defaults: {route: {headers: {all: '${id}${payload}'}}, on_null: {key: send}}\n",
      "fuzz.yaml", [](const std::string&) { return std::nullopt; });
  FuzzSink sink;
  Relay relay(config.outbox, 8);
  const Now now{.steady = TimePoint(std::chrono::hours(1)), .wall = from_postgres_time(0)};
  const auto start = [&] {
    relay.settle(now);
    sink.give_up();
    relay.start_stream(sink, {.position = relay.flushed_lsn(), .same_history = true, .catalog = {{16384, 0}}}, now);
  };
  relay.start_stream(sink, {.position = Lsn{0x100}, .same_history = false, .catalog = {{16384, 0}}}, now);
  while (input.size() >= 2) {
    const std::size_t size = static_cast<std::uint8_t>(input[0]) * 256u + static_cast<std::uint8_t>(input[1]);
    const std::string frame(input.substr(2, size));  // A buffer of its own, so that a read beyond it is seen.
    input.remove_prefix(std::min(input.size(), 2 + size));
    const auto before = relay.flushed_lsn();
    try {
      for (int tries = 0; tries < 20 && !relay.wants_input(); ++tries) relay.collect(now);
      if (relay.wants_input()) relay.receive(frame, now);
      relay.collect(now);
    } catch (const ProtocolError&) {
      start();
    } catch (const HaltError&) {
      start();
    }
    if (relay.flushed_lsn() < before) __builtin_trap();
    relay.take_status(now, false);
  }
}

inline std::string framed(std::string_view frame) {
  std::string out;
  out.push_back(static_cast<char>(frame.size() >> 8));
  out.push_back(static_cast<char>(frame.size()));
  return out.append(frame);
}

}  // namespace outbox
