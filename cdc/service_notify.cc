#include "cdc/service_notify.h"

#include <systemd/sd-daemon.h>

namespace outbox {

ServiceNotify::ServiceNotify() {
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) > 0) {
    watchdog_interval_ = std::chrono::microseconds(microseconds / 2);
  }
}

void ServiceNotify::ready() {
  if (!ready_sent_) sd_notify(0, "READY=1");
  ready_sent_ = true;
}

void ServiceNotify::status(const std::string& text) { sd_notify(0, ("STATUS=" + text).c_str()); }

void ServiceNotify::stopping() {
  if (!stopping_sent_) sd_notify(0, "STOPPING=1");
  stopping_sent_ = true;
}

void ServiceNotify::watchdog(TimePoint now) {
  if (watchdog_interval_.count() == 0 || now < next_watchdog_) return;
  sd_notify(0, "WATCHDOG=1");
  next_watchdog_ = now + watchdog_interval_;
}

}  // namespace outbox
