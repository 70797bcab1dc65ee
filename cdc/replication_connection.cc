#include "cdc/replication_connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/exit_codes.h"
#include "cdc/preflight.h"

namespace outbox {

ReplicationConnection::ReplicationConnection(const SourceConfig& source, EventLoop& loop, TimePoint deadline)
    : loop_(&loop), connection_(connection_keywords(source, ConnectionKind::replication), loop, deadline) {
  connection_.on_notice([this](const std::string& code, const std::string& text) {
    spdlog::warn("PostgreSQL says: {}", text);
    // PostgreSQL 18 passes over a missing publication with no more than this warning, and moves the slot on.
    if (code == sqlstate::not_in_prerequisite_state) publication_skipped_ = true;
  });
}

SystemIdentity ReplicationConnection::identify(TimePoint deadline) {
  const auto result = connection_.query("IDENTIFY_SYSTEM", deadline);
  const auto field = [&](const char* name) {
    return std::string(PQgetvalue(result.get(), 0, PQfnumber(result.get(), name)));
  };
  return {.system_identifier = field("systemid"), .timeline = field("timeline"), .database = field("dbname")};
}

TimelineHistory ReplicationConnection::timeline_history(const std::string& timeline, TimePoint deadline) {
  if (timeline == "1") return {};
  const auto result = connection_.query("TIMELINE_HISTORY " + timeline, deadline);
  return parse_timeline_history(PQgetvalue(result.get(), 0, PQfnumber(result.get(), "content")));
}

std::string create_slot_command(const std::string& slot, bool temporary, bool failover, int server_version) {
  // PostgreSQL 14 knows no options in parentheses.
  const char* options = server_version < 150000 ? "NOEXPORT_SNAPSHOT"
                        : failover              ? "(SNAPSHOT 'nothing', FAILOVER true)"
                                                : "(SNAPSHOT 'nothing')";
  return fmt::format("CREATE_REPLICATION_SLOT \"{}\" {}LOGICAL pgoutput {}", slot, temporary ? "TEMPORARY " : "",
                     options);
}

void ReplicationConnection::start(const std::string& slot, const std::string& publication, Lsn start,
                                  TimePoint deadline) {
  publication_ = publication;
  // publication_names is read as a list of identifiers: unquoted, PostgreSQL would fold the case.
  // The replication grammar knows '' alone: the E'…' that libpq writes around a backslash is a syntax error there.
  const auto names = quote_literal(connection_.identifier(publication));
  connection_.query(fmt::format("START_REPLICATION SLOT \"{}\" LOGICAL {} (proto_version '1', "
                                "publication_names {})",
                                slot, to_string(start), names),
                    deadline);
}

void ReplicationConnection::fill() {
  if (PQconsumeInput(connection_.get()) == 0) throw error_of(connection_.get(), "reading the stream");
}

std::string_view ReplicationConnection::next() {
  char* text = nullptr;
  const int size = PQgetCopyData(connection_.get(), &text, 1);
  buffer_.reset(text);
  if (publication_skipped_) {
    throw FatalError(ExitCode::missing,
                     fmt::format("PostgreSQL finds no publication \"{}\" at this position of the log and passes over "
                                 "its events, so nothing from here on is confirmed. Make the publication again "
                                 "(outbox-relay init); what was written while it was missing is in the table alone",
                                 publication_));
  }
  if (size > 0) return {buffer_.get(), static_cast<std::size_t>(size)};
  if (size == 0) return {};
  stream_ended();
}

void ReplicationConnection::stream_ended() {
  while (const PgResult result{PQgetResult(connection_.get())}) {
    const auto status = PQresultStatus(result.get());
    if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE) throw error_of(result.get());
    if (status == PGRES_COPY_IN || status == PGRES_COPY_BOTH) break;
  }
  if (PQstatus(connection_.get()) == CONNECTION_BAD) throw error_of(connection_.get(), "the stream broke off");
  throw PgError("the server has ended the stream, as it does when it shuts down", "");
}

void ReplicationConnection::send(const StandbyStatusUpdate& update, WallTime now) {
  const auto bytes = encode(update, now);
  if (PQputCopyData(connection_.get(), bytes.data(), static_cast<int>(bytes.size())) < 0) {
    throw error_of(connection_.get(), "sending a status update");
  }
}

bool ReplicationConnection::try_flush() {
  const int state = PQflush(connection_.get());
  if (state < 0) throw error_of(connection_.get(), "sending a status update");
  return state == 0;
}

bool ReplicationConnection::end(TimePoint deadline) {
  if (PQputCopyEnd(connection_.get(), nullptr) < 0) throw error_of(connection_.get(), "ending the stream");
  for (;;) {
    const bool flushed = try_flush();
    char* text = nullptr;
    int size = 0;
    while ((size = PQgetCopyData(connection_.get(), &text, 1)) > 0) buffer_.reset(text);
    if (size < 0) break;
    pollfd one{.fd = socket(), .events = static_cast<short>(flushed ? POLLIN : POLLIN | POLLOUT), .revents = 0};
    if (EventLoop::now().steady >= deadline) return false;
    loop_->wait({&one, 1}, deadline);
    fill();
  }
  while (const PgResult result{PQgetResult(connection_.get())}) {
    if (PQresultStatus(result.get()) == PGRES_FATAL_ERROR) throw error_of(result.get());
  }
  return true;
}

}  // namespace outbox
