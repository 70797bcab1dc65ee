// `peek`: the next events as the relay would send them, without confirming anything.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/commands.h"
#include "cdc/one_shot.h"
#include "cdc/provision.h"
#include "cdc/relay.h"
#include "cdc/replication_connection.h"
#include "sinks/stdout_sink.h"

namespace outbox {

namespace {

// Prints the first records and refuses the rest, so that the relay stops reading.
class PeekSink final : public Sink {
 public:
  explicit PeekSink(std::uint64_t count) : left_(count) {}

  SendResult send(const Record& record, Ticket) override {
    if (left_ == 0) return SendResult::full;
    fmt::print("{}", to_json_line(record));
    std::fflush(stdout);
    --left_;
    return SendResult::accepted;
  }
  void collect(DeliveryReports&) override {}  // Nothing is ever delivered, so nothing is ever confirmed.
  int event_fd() const override { return -1; }
  bool done() const { return left_ == 0; }

 private:
  std::uint64_t left_;
};

// Names a slot that ends with the connection.
SourceConfig with_temporary_slot(SourceConfig source) {
  source.slot.name = "outbox_relay_peek_" + std::to_string(getpid());
  return source;
}

}  // namespace

ExitCode run_peek(const Config& given, const PeekOptions& options) {
  auto config = given;
  if (options.from_now) config.source = with_temporary_slot(config.source);
  EventLoop loop;
  ReplicationConnection connection(config.source, loop, one_shot_deadline());
  if (options.from_now) create_slot(connection.sql(), config, true);
  const auto catalog = read_catalog(connection.sql(), config, one_shot_deadline());
  require_ready(examine(catalog, config));
  if (catalog.slot->active && !options.from_now) {
    throw FatalError(ExitCode::unavailable,
                     fmt::format("replication slot \"{}\" is in use by PID {}. Stop that relay first, or see what is "
                                 "committed from now on: outbox-relay peek --from-now --config {}",
                                 config.source.slot.name, catalog.slot->active_pid, config.file));
  }
  connection.start(config.source.slot.name, config.source.publication.name, Lsn{}, one_shot_deadline());

  const auto now = EventLoop::now();
  const auto interval = std::chrono::milliseconds(std::max<std::int64_t>(catalog.wal_sender_timeout_ms / 3, 1000));
  PeekSink sink(options.count);
  Relay relay(config.outbox, options.count + 1);
  relay.start_stream(
      sink, {.position = {}, .same_history = false, .catalog = catalog.relations(), .status_interval = interval}, now);
  TimePoint status_at = now.steady;
  while (!sink.done()) {
    for (auto message = connection.next(); !message.empty() && !sink.done(); message = connection.next()) {
      relay.receive(message, EventLoop::now());
    }
    // Everything that was in the log when we began has been shown.
    if (!options.from_now && !relay.in_transaction() && relay.received_lsn() >= catalog.wal_end) break;
    if (EventLoop::now().steady >= status_at) {
      // Flushed at zero leaves the slot where it is.
      connection.send({.written = relay.received_lsn(), .flushed = {}, .applied = {}, .reply_requested = true},
                      EventLoop::now().wall);
      status_at = EventLoop::now().steady + std::chrono::milliseconds(500);
    }
    connection.try_flush();
    loop.wait_for(connection.socket(), POLLIN, status_at);
    connection.fill();
  }
  return ExitCode::ok;
}

}  // namespace outbox
