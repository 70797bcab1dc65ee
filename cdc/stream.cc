#include "cdc/stream.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <thread>

#include "cdc/errors.h"
#include "cdc/preflight.h"

namespace outbox {

namespace {

// The walsender writes every message by itself and wakes the reader for each, and the sink sends a batch as soon as it
// is given a record. So an idle stream is read and passed on at once, and a busy one in bursts: the socket is emptied
// every so often, before its buffer stops the walsender, and what has come in is passed on together.
constexpr std::size_t messages_that_mean_load = 600;
constexpr std::chrono::microseconds fill_gap{300};
constexpr std::chrono::milliseconds burst_gap{20};

// Reports and status updates get their turn after so many messages.
constexpr std::size_t messages_a_turn = 8192;

constexpr int silent_intervals = 3;

constexpr std::chrono::seconds unacked_for_long{3};

// Of several hosts, the one that streams.
ConnectionKeywords server_of(const PGconn* connection) {
  ConnectionKeywords server{{"host", PQhost(connection)}, {"port", PQport(connection)}};
  const char* address = PQhostaddr(connection);
  if (address != nullptr && *address != 0) server.emplace_back("hostaddr", address);
  return server;
}

}  // namespace

Stream::Stream(const Config& config, EventLoop& loop, Observer& observer, Relay& relay, Sink& sink,
               ReplicationConnection& connection, std::chrono::milliseconds status_interval)
    : config_(config),
      loop_(loop),
      observer_(observer),
      relay_(relay),
      sink_(sink),
      connection_(connection),
      probe_(config, server_of(connection.sql().get()), EventLoop::now().steady),
      status_interval_(status_interval),
      last_message_(EventLoop::now().steady) {}

bool Stream::wants_input() const { return relay_.wants_input() && (!stop_by_ || relay_.stopping_repeats()); }

void Stream::read() {
  if (busy_) gather_burst(EventLoop::now().steady + burst_gap);
  const auto now = EventLoop::now();
  const auto messages = pass_on(now);
  busy_ = !more_buffered_ && messages >= messages_that_mean_load;
  if (messages == 0) return;
  last_message_ = now.steady;
  observer_.metrics().server_message(now.wall);
}

// Sleeps without the event loop, whose turn would cost more than each read: nothing that it sees cannot wait so long.
void Stream::gather_burst(TimePoint until) {
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(fill_gap);
    connection_.fill();
  }
}

std::size_t Stream::pass_on(const Now& now) {
  // With TLS one read more, for bytes that are decrypted already and that the socket does not show.
  const int fills_until_empty = connection_.encrypted() ? 2 : 1;
  int fills_in_vain = 0;
  std::size_t messages = 0;
  more_buffered_ = true;
  while (messages < messages_a_turn && wants_input()) {
    const auto message = connection_.next();
    if (!message.empty()) {
      relay_.receive(message, now);
      ++messages;
      fills_in_vain = 0;
    } else if (fills_in_vain < fills_until_empty) {
      connection_.fill();
      ++fills_in_vain;
    } else {
      more_buffered_ = false;
      break;
    }
  }
  return messages;
}

void Stream::confirm(const Now& now) {
  if (now.steady >= relay_.status_due_at()) {
    // Silence on the wire is not idleness: ask for a sign of life.
    const bool ask = now.steady - last_message_ >= status_interval_;
    connection_.send(relay_.take_status(now, ask), now.wall);
    flush_pending_ = true;
  }
  if (flush_pending_) flush_pending_ = !connection_.try_flush();
}

void Stream::check_silence(const Now& now) const {
  if (now.steady - last_message_ < silent_intervals * status_interval_) return;
  throw PgError(fmt::format("the server has not answered for {} s",
                            std::chrono::duration_cast<std::chrono::seconds>(now.steady - last_message_).count()),
                "");
}

// A table that has left the publication is passed over without an error: only the catalog shows it. One that has gone
// by its name may have been renamed, and flows on by its oid.
void Stream::probe(const Now& now) {
  if (!wants_input() || relay_.oldest_unacked_age(now) > unacked_for_long) probe_.hurry();
  const auto catalog = probe_.turn(now.steady);
  release_on_shutdown(now);
  if (!catalog) return;
  report_departed_partitions(*catalog);
  auto findings = examine(*catalog, config_);
  std::erase_if(findings, [](const Finding& each) {
    return each.subject != Finding::Subject::publication && each.subject != Finding::Subject::table;
  });
  const bool fine = std::all_of(findings.begin(), findings.end(), [](const Finding& each) {
    return each.severity == Finding::Severity::ok || each.severity == Finding::Severity::warning;
  });
  observer_.metrics().catalog(*catalog, fine);
  require_ready(findings);
  if (!wants_input() && catalog->slot && catalog->slot->walsender_waits_to_end()) {
    throw PgError("PostgreSQL is ending the stream, which nobody reads while the sink is full", "");
  }
}

// A server that shuts down waits for us without end, and we may be waiting for Kafka. Nothing is lost by going: what is
// not confirmed is sent again.
void Stream::release_on_shutdown(const Now& now) const {
  const auto since = probe_.shutting_down_since();
  if (!since || now.steady - *since < config_.source.release_on_shutdown_after) return;
  throw PgError(
      fmt::format("PostgreSQL is shutting down and waits for {} records that are not acknowledged: letting it go",
                  relay_.records_in_flight()),
      "");
}

// PostgreSQL says nothing of it, and publishes nothing of what is written straight into a detached partition.
void Stream::report_departed_partitions(const Catalog& catalog) {
  const auto relations = catalog.relations();
  for (const auto& [oid, entry] : relations_) {
    if (!catalog.tables[entry].exists || relations.contains(oid)) continue;
    spdlog::warn(
        "relation {} is no longer a part of table {}: detached or dropped (SELECT {}::regclass). What is "
        "written straight into a detached partition is not published",
        oid, quoted(config_.outbox[entry].table), oid);
  }
  relations_ = relations;
}

TimePoint Stream::wake_at(const Now& now) const {
  const auto idle = std::min(std::chrono::milliseconds(250), sink_.collect_within());
  auto at = std::min({now.steady + idle, relay_.status_due_at(), relay_.checkpoint_due_at(), probe_.next_at(),
                      observer_.publish_due()});
  if (wants_input() && (more_buffered_ || busy_)) at = now.steady;
  return at;
}

void Stream::wait(const Now& now) {
  short server_events = wants_input() && !more_buffered_ ? POLLIN : 0;
  if (flush_pending_) server_events |= POLLOUT;
  std::array<pollfd, 3> descriptors{
      pollfd{.fd = sink_.event_fd(), .events = POLLIN, .revents = 0},
      pollfd{.fd = server_events != 0 ? connection_.socket() : -1, .events = server_events, .revents = 0},
      probe_.descriptor()};
  loop_.wait(descriptors, wake_at(now));
}

StreamEnd Stream::run() {
  for (;;) {
    const auto now = EventLoop::now();
    if (loop_.stop_requested() && !stop_by_) {
      stop_by_ = now.steady + config_.shutdown.grace;
      observer_.service().stopping();
      observer_.enter(State::stopping, "reading on to the next Commit and waiting for acknowledgements");
    }
    if (wants_input()) read();
    if (!wants_input()) last_message_ = now.steady;
    if (!busy_ && !more_buffered_) sink_.flush();
    relay_.collect(now);
    relay_.write_checkpoint(now, stop_by_.has_value());
    confirm(now);
    if (stop_by_) {
      if (!relay_.stopping_repeats() && relay_.drained() && relay_.checkpoint_current()) return StreamEnd::drained;
      if (now.steady >= *stop_by_) return StreamEnd::grace_over;
    } else if (relay_.awaits_checkpoint()) {
      observer_.enter(State::starting, "reading the checkpoint from Kafka");
    } else {
      observer_.enter(relay_.wants_input() ? State::streaming : State::blocked);
    }
    check_silence(now);
    probe(now);
    wait(EventLoop::now());
  }
}

}  // namespace outbox
