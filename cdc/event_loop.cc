#include "cdc/event_loop.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "cdc/exit_codes.h"

namespace outbox {

namespace {

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

int open_signal_fd() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  checked(pthread_sigmask(SIG_BLOCK, &signals, nullptr), "pthread_sigmask");
  return checked(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd");
}

int open_timer_fd() { return checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create"); }

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

EventLoop::EventLoop() : signal_fd_(open_signal_fd()), timer_fd_(open_timer_fd()) {}

Now EventLoop::now() {
  return {.steady = std::chrono::steady_clock::now(),
          .wall = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now())};
}

// steady_clock is CLOCK_MONOTONIC under libstdc++.
void EventLoop::arm(TimePoint deadline) {
  const auto since_boot = std::max<std::chrono::nanoseconds>(deadline.time_since_epoch(), std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (since_boot - seconds).count();
  checked(timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
}

void EventLoop::take_signals() {
  signalfd_siginfo info{};
  while (read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGHUP && on_hangup_) {
      on_hangup_();
    } else {
      ++signals_;
    }
  }
  if (signals_ > 1) std::_Exit(to_int(ExitCode::drain_incomplete));
}

void EventLoop::wait(std::span<pollfd> descriptors, TimePoint deadline) {
  constexpr std::size_t most = 8;
  std::array<pollfd, most + 2> all{};
  std::copy(descriptors.begin(), descriptors.end(), all.begin());
  auto& signal = all[descriptors.size()];
  auto& timer = all[descriptors.size() + 1];
  signal = {.fd = signal_fd_.get(), .events = POLLIN, .revents = 0};
  timer = {.fd = timer_fd_.get(), .events = POLLIN, .revents = 0};
  arm(deadline);
  if (poll(all.data(), descriptors.size() + 2, -1) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }
  std::copy(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(descriptors.size()), descriptors.begin());
  if (signal.revents != 0) take_signals();
  if (on_turn_) on_turn_(now());
}

bool EventLoop::wait_for(int descriptor, short events, TimePoint deadline) {
  for (;;) {
    pollfd one{.fd = descriptor, .events = events, .revents = 0};
    // Turns at least four times a second, so that whoever watches sees the loop alive.
    const auto now = std::chrono::steady_clock::now();
    wait({&one, descriptor >= 0 ? std::size_t{1} : 0}, std::min(deadline, now + std::chrono::milliseconds(250)));
    if (stop_requested() && !undisturbed_) throw StopRequested();
    if (one.revents != 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

void EventLoop::sleep_until(TimePoint deadline) { wait_for(-1, 0, deadline); }

}  // namespace outbox
