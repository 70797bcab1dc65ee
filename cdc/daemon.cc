#include "cdc/daemon.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/failure.h"
#include "cdc/provision.h"

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
constexpr int most_refused_logins = 5;
constexpr int most_protocol_errors = 5;

TimePoint in(milliseconds span) { return EventLoop::now().steady + span; }

// A third of what the server allows, so that one lost update does no harm.
milliseconds status_interval(const Catalog& catalog) {
  const milliseconds longest{10000};
  if (catalog.wal_sender_timeout_ms <= 0) return longest;
  return std::clamp(milliseconds(catalog.wal_sender_timeout_ms / 3), StatusSchedule::shortest_gap, longest);
}

std::vector<std::string> literal_topics(const Config& config) {
  std::vector<std::string> topics;
  for (const auto& entry : config.outbox) {
    const auto& pieces = entry.route.topic.pieces;
    if (pieces.size() == 1 && pieces[0].kind == Template::Piece::Kind::literal) topics.push_back(pieces[0].text);
  }
  return topics;
}

}  // namespace

Daemon::Daemon(const Config& config, SinkFactory make_sink)
    : config_(config),
      make_sink_(std::move(make_sink)),
      relay_(config.outbox, max_in_flight),
      observer_(config.source.slot.name, relay_),
      reconnect_backoff_(milliseconds(100), milliseconds(5000), std::random_device{}()),
      halt_backoff_(milliseconds(1000), milliseconds(15000), std::random_device{}()) {
  loop_.on_turn([this](const Now& now) { observer_.turned(now); });
  if (config.http.enabled) {
    http_ = std::make_unique<HttpEndpoint>(config.http, observer_.board(), observer_.metrics());
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
      } catch (const HistoryChanged& change) {
        leave_stream();
        watermark_.reset();
        pause = reconnect("other", fmt::format("{}; resuming from the slot's own position", change.what()));
      } catch (const ProtocolError& error) {
        leave_stream();
        pause = on_protocol_error(error);
      } catch (const SinkBroken& error) {
        leave_stream();
        pause = reconnect("sink_broken", error.what());
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

ExitCode Daemon::run_stream() {
  if (!slot_seen_) observer_.enter(State::starting, "connecting to PostgreSQL");
  ReplicationConnection connection(config_.source, loop_, in(connect_deadline));
  refused_logins_ = 0;
  observer_.service().ready();
  const auto identity = connection.identify(in(connect_deadline));
  make_what_is_missing(connection);
  const auto catalog = take_slot(connection, identity);
  slot_seen_ = true;
  start_relay(catalog);
  watermark_ = {.identity = identity, .flushed = {}, .backend_pid = PQbackendPID(connection.sql().get())};
  observer_.metrics().connected(true);
  observer_.metrics().catalog(catalog, true);
  spdlog::info("streaming from {} (slot \"{}\", publication \"{}\", PostgreSQL {}, system {}, timeline {})",
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
                    "written, so they cannot be had from the slot",
                    to_string(relay_.flushed_lsn()), error.what()));
  }
}

void Daemon::make_what_is_missing(ReplicationConnection& connection) {
  const bool publication_allowed = config_.source.publication.create == CreatePolicy::if_missing;
  const bool slot_allowed = config_.source.slot.create == CreatePolicy::if_missing && !slot_seen_;
  if (!publication_allowed && !slot_allowed) return;
  const auto catalog = read_catalog(connection.sql(), config_, in(connect_deadline));
  if (!catalog.publication && publication_allowed) create_publication(connection.sql(), config_);
  if (catalog.slot || !slot_allowed) return;
  observer_.enter(State::starting, "waiting for PostgreSQL to create the slot");
  create_slot(connection.sql(), config_);
}

Catalog Daemon::take_slot(ReplicationConnection& connection, const SystemIdentity& identity) {
  for (;;) {
    auto catalog = read_catalog(connection.sql(), config_, in(connect_deadline));
    const auto findings = examine(catalog, config_);
    log_warnings(findings);
    if (!catalog.slot && slot_seen_) {
      throw FatalError(ExitCode::missing,
                       fmt::format("replication slot \"{}\" has been dropped; its last known position is {}. What was "
                                   "committed since is in the table alone, and a new slot would pass over it: send it "
                                   "again, then run outbox-relay init --config {}",
                                   config_.source.slot.name, to_string(relay_.flushed_lsn()), config_.file));
    }
    require_ready(findings);
    if (!catalog.slot->active) {
      check_watermark(catalog, identity);
      try {
        const auto after = resume_after(*catalog.slot);
        connection.start(config_.source.slot.name, config_.source.publication.name, after ? after->commit_lsn : Lsn{},
                         in(connect_deadline));
        return catalog;
      } catch (const PgError& error) {
        if (error.sqlstate() != sqlstate::object_in_use) throw;
      }
    }
    stand_by(*catalog.slot);
  }
}

// Another process holds the slot: that is a hot spare waiting, not an error.
void Daemon::stand_by(const CatalogSlot& slot) {
  // What another relay confirms is beyond what we know. Our own walsender of before a broken connection is not another.
  const bool ours = watermark_ && slot.active_pid == watermark_->backend_pid;
  if (!ours && slot.active_pid != 0) watermark_.reset();
  observer_.enter(State::standby, fmt::format("replication slot \"{}\" is in use by PID {}; waiting until it is free",
                                              config_.source.slot.name, slot.active_pid));
  loop_.sleep_until(in(seconds(1)));
}

// Our own position is believed only of the history that it was measured on: ahead of another one, it would skip
// events.
void Daemon::check_watermark(const Catalog& catalog, const SystemIdentity& identity) {
  if (!watermark_) return;
  const auto flushed = watermark_->flushed;
  if (watermark_->identity != identity || catalog.wal_end < flushed) {
    spdlog::warn("the server is not the one of before (system {}, timeline {}, WAL up to {}): resuming from the slot's "
                 "own position {} instead of {}",
                 identity.system_identifier, identity.timeline, to_string(catalog.wal_end),
                 to_string(catalog.slot->confirmed_flush_lsn), to_string(flushed));
    watermark_.reset();
    return;
  }
  if (catalog.slot->confirmed_flush_lsn > flushed) {
    throw FatalError(ExitCode::slot_lost,
                     fmt::format("replication slot \"{}\" was advanced from {} to {} by someone else: events committed "
                                 "between the two were not sent, unless another relay sent them. Send them again from the table, then "
                                 "start the relay",
                                 config_.source.slot.name, to_string(flushed),
                                 to_string(catalog.slot->confirmed_flush_lsn)));
  }
}

void Daemon::start_relay(const Catalog& catalog) {
  if (!sink_) sink_ = make_sink_(config_);
  sink_->expect_topics(literal_topics(config_));
  const auto after = resume_after(*catalog.slot);
  relay_.start_stream(*sink_,
                      {.position = after ? after->commit_lsn : catalog.slot->confirmed_flush_lsn,
                       .same_history = watermark_.has_value(),
                       .resume_after = after,
                       .catalog = catalog.relations(),
                       .status_interval = status_interval(catalog)},
                      EventLoop::now());
  in_stream_ = true;
  stream_began_ = EventLoop::now().steady;
}

// PostgreSQL forgets confirmations when it crashes, and before 17 at every restart. What we delivered beyond the slot's
// position is passed over by starting at its last transaction, which must come by again.
std::optional<DeliveredTransaction> Daemon::resume_after(const CatalogSlot& slot) const {
  const auto& last = relay_.last_delivered();
  const bool forgotten = watermark_ && last && slot.confirmed_flush_lsn <= last->commit_lsn;
  return forgotten ? last : std::nullopt;
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
  // Behind a refused record nothing more of its topic may leave; and a stop has had its grace.
  const bool at_once = relay_.refused() > 0 || loop_.stop_requested();
  const auto deadline = in(at_once ? seconds(0) : drain_bound);
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
  if (relay_.refused() > 0 || !relay_.all_reported()) sink_.reset();
  watermark_->flushed = relay_.flushed_lsn();
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
    const auto result = sql.query(fmt::format("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = {}",
                                              sql.literal(config_.source.slot.name)),
                                  deadline);
    const auto confirmed = PQntuples(result.get()) == 1 ? parse_lsn(PQgetvalue(result.get(), 0, 0)) : std::nullopt;
    return confirmed && *confirmed >= relay_.flushed_lsn();
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
  spdlog::warn("stopped before everything sent was acknowledged and confirmed ({} records in flight): duplicates of "
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

milliseconds Daemon::on_protocol_error(const ProtocolError& error) {
  if (++protocol_errors_ >= most_protocol_errors) throw FatalError(ExitCode::protocol, error.what());
  return reconnect("protocol_error", error.what());
}

milliseconds Daemon::on_pg_error(const PgError& error) {
  const auto failure = classify(error);
  const auto text = failure.advice.empty() ? std::string(error.what()) : fmt::format("{}. {}", error.what(), failure.advice);
  switch (failure.kind) {
    case FailureKind::transient:
      return reconnect(failure.metric_reason, text);
    case FailureKind::refused_login:
      if (++refused_logins_ < most_refused_logins) return reconnect(failure.metric_reason, text);
      throw FatalError(ExitCode::permission, text);
    case FailureKind::missing: throw FatalError(ExitCode::missing, text);
    case FailureKind::permission: throw FatalError(ExitCode::permission, text);
    case FailureKind::config: throw FatalError(ExitCode::config, text);
  }
  throw FatalError(ExitCode::internal, text);
}

void Daemon::log_warnings(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    if (finding.severity != Finding::Severity::warning) continue;
    if (warned_.insert(finding.text).second) spdlog::warn("{}", to_string(finding));
  }
}

}  // namespace outbox
