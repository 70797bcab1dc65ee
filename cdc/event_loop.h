// The one place where the relay waits: poll() over the given descriptors, signals and a timer.
#pragma once

#include <poll.h>

#include <functional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "cdc/relay.h"

namespace outbox {

// SIGTERM or SIGINT arrived while something was waited for that need not be waited for any more.
class StopRequested : public std::runtime_error {
 public:
  StopRequested() : std::runtime_error("stopped by a signal") {}
};

// A descriptor that is closed with its owner.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// SIGTERM, SIGINT and SIGHUP are blocked from its construction on, in this thread and those made later: make it first.
// A second SIGTERM or SIGINT ends the process at once, with exit code 75.
class EventLoop {
 public:
  EventLoop();

  static Now now();

  // Waits until a descriptor is ready, a signal comes or the deadline passes; fills in `revents`.
  void wait(std::span<pollfd> descriptors, TimePoint deadline);

  // Waits for one descriptor. False where the deadline passed first. Throws StopRequested.
  bool wait_for(int descriptor, short events, TimePoint deadline);

  // Throws StopRequested.
  void sleep_until(TimePoint deadline);

  bool stop_requested() const { return signals_ > 0; }
  // What is left to do is what the stop waits for: from here on no wait throws StopRequested.
  void finish_undisturbed() { undisturbed_ = true; }

  // What SIGHUP does, at the next turn; without it, it counts as a wish to stop.
  void on_hangup(std::function<void()> callback) { on_hangup_ = std::move(callback); }

  // Called at every turn; must be short.
  void on_turn(std::function<void(const Now&)> callback) { on_turn_ = std::move(callback); }

 private:
  void arm(TimePoint deadline);
  void take_signals();

  FileDescriptor signal_fd_;
  FileDescriptor timer_fd_;
  int signals_ = 0;
  bool undisturbed_ = false;
  std::function<void(const Now&)> on_turn_;
  std::function<void()> on_hangup_;
};

}  // namespace outbox
