// What a sink is given and what it says of it afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/failure_class.h"

namespace outbox {

// Names one record between send() and its delivery report: a running number, never reused in a process.
enum class Ticket : std::uint64_t {};

constexpr std::uint64_t to_number(Ticket ticket) { return static_cast<std::uint64_t>(ticket); }

struct Header {
  std::string_view name;
  std::string_view value;
};

// One message on its way out. The views must hold only during the call that takes it.
struct Record {
  std::string_view topic;
  std::optional<std::string_view> key;    // Nothing: a NULL key.
  std::optional<std::string_view> value;  // Nothing: a tombstone.
  std::vector<Header> headers;
  std::optional<std::int32_t> partition;  // Nothing: chosen by the key.
  std::int64_t timestamp_ms = 0;          // Unix time.
};

// Why a record can never be delivered as it is.
struct DeliveryFailure {
  Ticket ticket{};
  std::string topic;
  std::string reason;  // The sink's error code by name, and its text.
  std::string remedy;  // What a person can do about it.
  FailureClass failure_class = FailureClass::other;
};

// What a sink's checkpoint held when the sink began.
struct StoredCheckpoint {
  std::string text;
};

// Everything reported since the last call, in the order of the reports.
struct DeliveryReports {
  std::vector<Ticket> delivered;
  std::vector<DeliveryFailure> failed;
  std::vector<Ticket> given_up;  // Not sent any more, because a record before them failed: neither of the two.
  std::optional<StoredCheckpoint> stored_checkpoint;  // Once, before anything is accepted.
  bool checkpoint_written = false;                    // The one that was asked for last.

  void clear() {
    delivered.clear();
    failed.clear();
    given_up.clear();
    stored_checkpoint.reset();
    checkpoint_written = false;
  }
};

}  // namespace outbox
