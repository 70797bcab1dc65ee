// What systemd wants to know of a service (sd_notify); without systemd nothing happens.
#pragma once

#include <string>

#include "cdc/status_schedule.h"

namespace outbox {

class ServiceNotify {
 public:
  ServiceNotify();

  void ready();                          // Once.
  void status(const std::string& text);  // One line for `systemctl status`.
  void stopping();                       // Once.
  void watchdog(TimePoint now);          // The loop has turned; tells systemd as often as it asks.

 private:
  bool ready_sent_ = false;
  bool stopping_sent_ = false;
  std::chrono::microseconds watchdog_interval_{0};  // Zero: not asked for.
  TimePoint next_watchdog_;
};

}  // namespace outbox
