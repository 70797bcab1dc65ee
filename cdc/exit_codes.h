// The exit codes of every command: sysexits.h, with our meaning. README has the table; a test compares them.
#pragma once

#include <stdexcept>
#include <string>

namespace outbox {

enum class ExitCode {
  ok = 0,
  usage = 64,
  slot_lost = 65,         // The slot is invalidated, or skips events that were not delivered.
  missing = 66,           // The slot or the publication does not exist.
  unavailable = 69,       // A one-shot command could not reach a server.
  internal = 70,          // A fault of ours.
  drain_incomplete = 75,  // Stopped before everything sent was acknowledged: duplicates follow.
  protocol = 76,          // PostgreSQL keeps sending what cannot be understood.
  permission = 77,
  config = 78,
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

// What a restart alone cannot mend: the process says it and ends with this code.
class FatalError : public std::runtime_error {
 public:
  FatalError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace outbox
