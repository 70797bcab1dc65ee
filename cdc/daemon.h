// `run`: one stream after another, until a signal or something that only a person can mend.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cdc/backoff.h"
#include "cdc/errors.h"
#include "cdc/event_loop.h"
#include "cdc/exit_codes.h"
#include "cdc/http_endpoint.h"
#include "cdc/observer.h"
#include "cdc/relay.h"
#include "cdc/replication_connection.h"
#include "cdc/slot_claim.h"
#include "cdc/stream.h"
#include "config/config.h"

namespace outbox {

// Makes a new sink for a stream. Where it keeps a checkpoint, `system_identifier` and `checkpoint` are what it needs.
using SinkFactory = std::function<std::unique_ptr<Sink>(const Config&, const std::string& system_identifier,
                                                        CheckpointSource checkpoint)>;

// Reads the configuration file again. Throws ConfigError.
using ConfigReader = std::function<Config()>;

class Daemon {
 public:
  // Keeps a reference to the configuration.
  Daemon(const Config& config, SinkFactory make_sink, ConfigReader read_again);

  // The first gap is logged and passed over: a person has typed so.
  void accept_gap() { claim_.accept_gap(); }

  // The exit code of the process after a signal. Throws FatalError and ConfigError where it has to end before.
  ExitCode run();

 private:
  void reload();
  ExitCode run_stream();
  ReplicationConnection connect();
  void start_relay(const ClaimedSlot& claimed, const SystemIdentity& identity);
  std::string checkpoint_text();
  ExitCode finish(ReplicationConnection& connection, StreamEnd end);
  bool confirmed_by_server(ReplicationConnection& connection, TimePoint deadline);
  void confirm_acknowledged(ReplicationConnection& connection);
  void settle_reports();
  void leave_stream();
  ExitCode stopped();
  std::chrono::milliseconds on_halt(const HaltError& problem);
  std::chrono::milliseconds on_dead_letter_due(const DeadLetterDue& refusal);
  std::chrono::milliseconds on_sink_broken(const SinkBroken& error);
  std::chrono::milliseconds on_history_changed(const HistoryChanged& change);
  std::chrono::milliseconds on_checkpoint_unusable(const CheckpointUnusable& problem);
  std::chrono::milliseconds on_fenced(const SinkFenced& error);
  std::chrono::milliseconds on_pg_error(const PgError& error);
  std::chrono::milliseconds on_protocol_error(const ProtocolError& error);
  std::chrono::milliseconds reconnect(const char* reason, const std::string& text);

  const Config& config_;
  SinkFactory make_sink_;
  ConfigReader read_again_;
  EventLoop loop_;
  Relay relay_;
  Observer observer_;
  SlotClaim claim_;
  std::unique_ptr<HttpEndpoint> http_;
  std::unique_ptr<Sink> sink_;
  HistoryIdentity identity_;         // Of the server that streams.
  bool checkpoint_decided_ = false;  // What the present stream passes over.
  bool streamed_ = false;            // A stream has begun to send.
  bool in_stream_ = false;           // The relay holds a stream whose end has not been seen to yet.
  TimePoint stream_began_;
  Backoff reconnect_backoff_;
  Backoff halt_backoff_;
  Lsn halted_at_;      // Where the last halt, or unknown relation, was met.
  Lsn letter_due_at_;  // Where the last stream ended for a dead letter.
  int letters_in_place_ = 0;
  int refused_logins_ = 0;
  int protocol_errors_ = 0;
};

}  // namespace outbox
