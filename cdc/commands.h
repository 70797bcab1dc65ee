// The one-shot commands. Each writes its result to standard output and what is wrong to standard error.
#pragma once

#include <chrono>
#include <optional>

#include "cdc/exit_codes.h"
#include "cdc/lsn.h"
#include "config/config.h"

namespace outbox {

struct InitOptions {
  bool print_sql = false;         // Print what would be run, touch nothing.
  bool reset_checkpoint = false;  // Write a first checkpoint although there is one.
};
ExitCode run_init(const Config& config, const InitOptions& options);

struct CheckOptions {
  bool connect = false;  // Also look at both servers.
};
ExitCode run_check(const Config& config, const CheckOptions& options);

struct StatusOptions {
  bool json = false;
};
ExitCode run_status(const Config& config, const StatusOptions& options);

struct PeekOptions {
  std::uint64_t count = 10;
  bool from_now = false;  // Through a temporary slot: events committed from now on.
};
ExitCode run_peek(const Config& config, const PeekOptions& options);

struct SlotDropOptions {
  bool force = false;  // Also a slot that is in use.
};
ExitCode run_slot_drop(const Config& config, const SlotDropOptions& options);

struct SlotAdvanceOptions {
  Lsn past;
  bool yes = false;  // Do not ask.
};
ExitCode run_slot_advance(const Config& config, const SlotAdvanceOptions& options);

struct WaitOptions {
  std::optional<Lsn> lsn;  // Nothing: where the server's log ends when the command begins.
  std::chrono::milliseconds timeout{60000};
};
ExitCode run_wait(const Config& config, const WaitOptions& options);

}  // namespace outbox
