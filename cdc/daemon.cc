#include "cdc/daemon.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/checkpoint.h"
#include "cdc/failure.h"
#include "cdc/logging.h"
#include "config/load.h"

namespace outbox {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What a crash may repeat, and how far one partition may fall behind the others.
constexpr std::size_t max_in_flight = 65536;

constexpr seconds connect_deadline{15};
// For reports of a stream that has ended: a late record must not land among those of the next one.
constexpr seconds drain_bound{3};
constexpr seconds stream_counts_as_good{10};
constexpr milliseconds fence_pause{1000};
constexpr int letters_without_pause = 10;
constexpr int most_refused_logins = 5;
constexpr int most_protocol_errors = 5;

TimePoint in(milliseconds span) { return EventLoop::now().steady + span; }

// A third of what the server allows, so that one lost update does no harm.
milliseconds status_interval(const Catalog& catalog) {
  const milliseconds longest{10000};
  if (catalog.wal_sender_timeout_ms <= 0) return longest;
  return std::clamp(milliseconds(catalog.wal_sender_timeout_ms / 3), StatusSchedule::shortest_gap, longest);
}

}  // namespace

Daemon::Daemon(const Config& config, SinkFactory make_sink, ConfigReader read_again)
    : config_(config),
      make_sink_(std::move(make_sink)),
      read_again_(std::move(read_again)),
      relay_(config.outbox, max_in_flight, config.delivery, config.memory.budget_bytes),
      observer_(config.source.slot.name, relay_),
      claim_(config, loop_, observer_, relay_),
      reconnect_backoff_(milliseconds(100), milliseconds(5000), std::random_device{}()),
      halt_backoff_(milliseconds(1000), milliseconds(15000), std::random_device{}()) {
  observer_.metrics().reloaded(true, EventLoop::now().wall);
  loop_.on_hangup([this] { reload(); });
  loop_.on_turn([this](const Now& now) { observer_.turned(now); });
  if (config.http.enabled) {
    http_ = std::make_unique<HttpEndpoint>(config.http, observer_.board(), observer_.metrics());
  }
}

// Secrets in files are read at every connect anyway; where things are and what is sent stays what it was at the start.
void Daemon::reload() {
  try {
    configure_logging(read_again_().log);
    observer_.metrics().reloaded(true, EventLoop::now().wall);
    spdlog::info("{} read again: its log settings are in force, all else takes effect at the next start", config_.file);
  } catch (const ConfigError& error) {
    observer_.metrics().reloaded(false, EventLoop::now().wall);
    spdlog::error("the configuration stays as it was: {}", error.what());
  }
}

ExitCode Daemon::run() {
  milliseconds pause{0};
  try {
    for (;;) {
      loop_.sleep_until(in(pause));
      try {
        return run_stream();
      } catch (const HaltError& problem) {
        leave_stream();
        pause = on_halt(problem);
      } catch (const DeadLetterDue& refusal) {
        leave_stream();
        pause = on_dead_letter_due(refusal);
      } catch (const HistoryChanged& change) {
        leave_stream();
        pause = on_history_changed(change);
      } catch (const CheckpointUnusable& problem) {
        leave_stream();
        pause = on_checkpoint_unusable(problem);
      } catch (const ProtocolError& error) {
        leave_stream();
        pause = on_protocol_error(error);
      } catch (const SinkFenced& error) {
        leave_stream();
        pause = on_fenced(error);
      } catch (const SinkBroken& error) {
        leave_stream();
        pause = on_sink_broken(error);
      } catch (const PgError& error) {
        leave_stream();
        pause = on_pg_error(error);
      }
    }
  } catch (const StopRequested&) {
    observer_.service().stopping();
    leave_stream();
    return stopped();
  }
}

ReplicationConnection Daemon::connect() {
  try {
    return ReplicationConnection(config_.source, loop_, in(connect_deadline));
  } catch (const FatalError& error) {
    // A password file that was good once is being replaced.
    if (claim_.claimed_before()) throw PgError(error.what(), "");
    throw;
  }
}

ExitCode Daemon::run_stream() {
  if (!claim_.claimed_before()) observer_.enter(State::starting, "connecting to PostgreSQL");
  auto connection = connect();
  refused_logins_ = 0;
  observer_.service().ready();
  const auto identity = connection.identify(in(connect_deadline));
  const auto claimed = claim_.claim(connection, identity);
  const auto& catalog = claimed.catalog;
  start_relay(claimed, identity);
  observer_.metrics().connected(true);
  observer_.metrics().catalog(catalog, true);
  // Each try of a halted relay begins a stream: no news until it comes past where it halted.
  spdlog::log(observer_.halted() ? spdlog::level::debug : spdlog::level::info,
              "streaming from {} (slot \"{}\", publication \"{}\", PostgreSQL {}, system {}, timeline {})",
              to_string(relay_.flushed_lsn()), config_.source.slot.name, config_.source.publication.name,
              catalog.server_version_text, identity.system_identifier, identity.timeline);
  Stream stream(config_, loop_, observer_, relay_, *sink_, connection, status_interval(catalog));
  try {
    return finish(connection, stream.run());
  } catch (const HaltError&) {
    confirm_acknowledged(connection);
    throw;
  } catch (const PgError& error) {
    if (error.sqlstate() != sqlstate::undefined_object) throw;
    throw FatalError(
        ExitCode::missing,
        fmt::format("PostgreSQL cannot decode on from {}: {}. The publication did not exist when those rows were "
                    "written, so they cannot be had from the slot. Run outbox-relay init --config {}, give up what the "
                    "slot has not delivered (SELECT pg_replication_slot_advance('{}', pg_current_wal_lsn());), and "
                    "send again from the table what was committed since",
                    to_string(relay_.flushed_lsn()), error.what(), config_.file, config_.source.slot.name));
  }
}

// The slot is ours by now: only then may a new sink fence the transactions of an older one.
void Daemon::start_relay(const ClaimedSlot& claimed, const SystemIdentity& identity) {
  identity_ = {.system_identifier = identity.system_identifier, .timeline = identity.timeline};
  checkpoint_decided_ = claimed.judge_checkpoint != nullptr;
  if (checkpoint_decided_) sink_.reset();  // A sink reports the stored checkpoint when it begins.
  if (!sink_) sink_ = make_sink_(config_, identity.system_identifier, [this] { return checkpoint_text(); });
  sink_->expect_topics(literal_topics(config_));
  relay_.start_stream(*sink_,
                      {.position = claimed.position,
                       .same_history = claimed.same_history,
                       .resume = claimed.resume,
                       .judge_checkpoint = claimed.judge_checkpoint,
                       .catalog = claimed.catalog.relations(),
                       .status_interval = status_interval(claimed.catalog)},
                      EventLoop::now());
  in_stream_ = true;
  stream_began_ = EventLoop::now().steady;
}

std::string Daemon::checkpoint_text() {
  const bool with_sent = config_.delivery.guarantee == Guarantee::exactly_once;
  return encode(Checkpoint{.identity = identity_, .progress = relay_.next_checkpoint(with_sent)});
}

// The stream of a halted relay is given up: what it has delivered is confirmed first, so that a stop while halted
// repeats no more than it must.
void Daemon::confirm_acknowledged(ReplicationConnection& connection) {
  settle_reports();
  if (relay_.flushed_lsn() <= relay_.confirmed_lsn()) return;
  const auto now = EventLoop::now();
  try {
    connection.send(relay_.take_status(now, false), now.wall);
    connection.end(in(seconds(1)));
  } catch (const PgError& error) {
    spdlog::debug("the last confirmation before the halt: {}", error.what());
  }
}

// Nothing more is sent: takes the reports that still come, within a bound.
void Daemon::settle_reports() {
  const auto deadline = in(loop_.stop_requested() ? seconds(0) : drain_bound);  // A stop has had its grace.
  try {
    relay_.settle(EventLoop::now());
    while (!relay_.all_reported() && EventLoop::now().steady < deadline) {
      pollfd one{.fd = sink_->event_fd(), .events = POLLIN, .revents = 0};
      loop_.wait({&one, 1}, std::min(deadline, in(milliseconds(100))));
      relay_.settle(EventLoop::now());
    }
  } catch (const SinkBroken&) {
    // Said already, or about to be replaced: what it has not reported counts as not delivered.
  }
}

// The stream is over and its connection closed.
void Daemon::leave_stream() {
  if (!std::exchange(in_stream_, false)) return;
  observer_.metrics().connected(false);
  settle_reports();
  if (relay_.refused() || !relay_.all_reported()) sink_.reset();
  claim_.release();
  streamed_ = streamed_ || !relay_.awaits_checkpoint();
  const bool was_good = EventLoop::now().steady - stream_began_ > stream_counts_as_good;
  if (!was_good) return;
  reconnect_backoff_.reset();
  protocol_errors_ = 0;
}

ExitCode Daemon::finish(ReplicationConnection& connection, StreamEnd end) {
  const auto deadline = in(end == StreamEnd::drained ? milliseconds(5000) : milliseconds(500));
  const auto now = EventLoop::now();
  connection.send(relay_.take_status(now, false), now.wall);
  const bool landed = confirmed_by_server(connection, deadline);
  if (end == StreamEnd::drained && landed) {
    spdlog::info("stopped: everything up to {} is acknowledged and confirmed", to_string(relay_.flushed_lsn()));
    in_stream_ = false;
    return ExitCode::ok;
  }
  leave_stream();
  return stopped();
}

bool Daemon::confirmed_by_server(ReplicationConnection& connection, TimePoint deadline) {
  const auto query = [&](PgConnection& sql) {
    const auto result =
        sql.query(fmt::format("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = {}",
                              sql.literal(config_.source.slot.name)),
                  deadline);
    const auto confirmed = PQntuples(result.get()) == 1 ? parse_lsn(PQgetvalue(result.get(), 0, 0)) : std::nullopt;
    return confirmed && *confirmed >= relay_.confirmable_lsn();
  };
  loop_.finish_undisturbed();
  try {
    // The server reads the end of the copy after the update before it.
    if (connection.end(std::min(deadline, in(seconds(2))))) return query(connection.sql());
    // It is busy sending a large transaction: another connection has to look.
    PgConnection other(connection_keywords(config_.source, ConnectionKind::plain), loop_, deadline);
    while (EventLoop::now().steady < deadline) {
      if (query(other)) return true;
      loop_.sleep_until(in(milliseconds(100)));
    }
  } catch (const PgError& error) {
    spdlog::warn("the last confirmation cannot be verified: {}", error.what());
  }
  return false;
}

ExitCode Daemon::stopped() {
  const bool clean = !relay_.sent_beyond_flushed() && relay_.flushed_lsn() <= relay_.confirmed_lsn();
  if (clean) {
    spdlog::info("stopped");
    return ExitCode::ok;
  }
  spdlog::warn(
      "stopped before everything sent was acknowledged and confirmed ({} records in flight): duplicates of "
      "what follows {} will be sent after the next start",
      relay_.records_in_flight(), to_string(relay_.flushed_lsn()));
  return ExitCode::drain_incomplete;
}

milliseconds Daemon::reconnect(const char* reason, const std::string& text) {
  observer_.metrics().reconnecting(reason);
  observer_.service().ready();
  const auto pause = reconnect_backoff_.next();
  spdlog::warn("{}; connecting again in {} ms", text, pause.count());
  if (!loop_.stop_requested()) observer_.enter(State::starting, text);
  return pause;
}

milliseconds Daemon::on_history_changed(const HistoryChanged& change) {
  if (checkpoint_decided_) {
    throw FatalError(ExitCode::slot_lost,
                     fmt::format("{}, and the checkpoint says so: which of its events were sent is not known. To send "
                                 "what follows the slot's position, run outbox-relay init --reset-checkpoint",
                                 change.what()));
  }
  claim_.forget();
  return reconnect("other", fmt::format("{}; resuming from the slot's own position", change.what()));
}

// Before anything was sent it is a mistake of the set-up; later it may mend itself, or a person does.
milliseconds Daemon::on_checkpoint_unusable(const CheckpointUnusable& problem) {
  if (!streamed_) throw FatalError(ExitCode::config, problem.what());
  return on_halt(HaltError(problem.what()));
}

// The slot says who goes on: given back, it is free for whoever fenced us, if there is one.
milliseconds Daemon::on_fenced(const SinkFenced& error) {
  claim_.forget();
  return std::max(fence_pause, reconnect("fenced", error.what()));
}

milliseconds Daemon::on_halt(const HaltError& problem) {
  const auto at = relay_.flushed_lsn();
  const bool same_place = at == std::exchange(halted_at_, at);
  // A partition attached since the catalog was read is resolved by reading it again.
  if (dynamic_cast<const UnknownRelation*>(&problem) != nullptr && !same_place) return milliseconds(0);
  if (!same_place) halt_backoff_.reset();
  observer_.metrics().reconnecting("halted");
  observer_.metrics().halted();
  observer_.enter(State::halted, problem.what());
  return halt_backoff_.next();
}

// Not a fault of the stream: the next one begins at once, with nothing of the refused record's batch sent twice.
milliseconds Daemon::on_dead_letter_due(const DeadLetterDue& refusal) {
  observer_.metrics().reconnecting("dead_letter");
  observer_.metrics().producer_rebuilt("dead_letter");
  spdlog::warn("{}", refusal.what());
  // Each refusal brings it on by an event; a set-up that refuses for ever must not make a busy loop.
  const bool came_on = relay_.flushed_lsn() != std::exchange(letter_due_at_, relay_.flushed_lsn());
  letters_in_place_ = came_on ? 0 : letters_in_place_ + 1;
  return letters_in_place_ < letters_without_pause ? milliseconds(0) : reconnect_backoff_.next();
}

milliseconds Daemon::on_sink_broken(const SinkBroken& error) {
  sink_.reset();
  const auto* outdated = dynamic_cast<const SinkOutdated*>(&error);
  observer_.metrics().producer_rebuilt(outdated != nullptr ? outdated->reason() : "fatal");
  if (outdated == nullptr) return reconnect("sink_broken", error.what());
  observer_.metrics().reconnecting("sink_broken");
  spdlog::warn("{}; a new one is made", error.what());
  return milliseconds(0);
}

milliseconds Daemon::on_protocol_error(const ProtocolError& error) {
  if (++protocol_errors_ >= most_protocol_errors) throw FatalError(ExitCode::protocol, error.what());
  return reconnect("protocol_error", error.what());
}

milliseconds Daemon::on_pg_error(const PgError& error) {
  const auto failure = classify(error, config_.source.user);
  const auto text =
      failure.advice.empty() ? std::string(error.what()) : fmt::format("{}. {}", error.what(), failure.advice);
  switch (failure.kind) {
    case FailureKind::transient:
      return reconnect(failure.metric_reason, text);
    case FailureKind::refused_login:
      if (++refused_logins_ < most_refused_logins) return reconnect(failure.metric_reason, text);
      throw FatalError(ExitCode::permission, text);
    case FailureKind::missing:
      throw FatalError(ExitCode::missing, text);
    case FailureKind::permission:
      throw FatalError(ExitCode::permission, text);
    case FailureKind::config:
      throw FatalError(ExitCode::config, text);
  }
  throw FatalError(ExitCode::internal, text);
}

}  // namespace outbox
