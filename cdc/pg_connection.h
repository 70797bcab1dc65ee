// A connection to PostgreSQL whose every wait is the event loop's.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "cdc/conninfo.h"
#include "cdc/event_loop.h"
#include "cdc/pg_handles.h"

namespace outbox {

// What the server or libpq said. `sqlstate` is empty where the connection itself is lost or was never there.
class PgError : public std::runtime_error {
 public:
  PgError(const std::string& message, std::string sqlstate)
      : std::runtime_error(message), sqlstate_(std::move(sqlstate)) {}
  const std::string& sqlstate() const { return sqlstate_; }

 private:
  std::string sqlstate_;
};

// SQLSTATEs that the relay decides by.
namespace sqlstate {
inline constexpr std::string_view object_in_use = "55006";
inline constexpr std::string_view not_in_prerequisite_state = "55000";
inline constexpr std::string_view undefined_object = "42704";
inline constexpr std::string_view duplicate_object = "42710";
inline constexpr std::string_view insufficient_privilege = "42501";
inline constexpr std::string_view lock_not_available = "55P03";
inline constexpr std::string_view undefined_database = "3D000";
inline constexpr std::string_view protocol_violation = "08P01";
inline constexpr std::string_view cannot_connect_now = "57P03";  // It starts up, or shuts down.
}  // namespace sqlstate

// Severity, SQLSTATE and text of a notice.
using NoticeReceiver = std::function<void(const std::string& sqlstate, const std::string& text)>;

// Does not block: each call turns the event loop until it is done or the deadline passes, which is a PgError.
// All calls may throw StopRequested.
class PgConnection {
 public:
  PgConnection(const ConnectionKeywords& keywords, EventLoop& loop, TimePoint deadline);

  // Runs one command by the simple protocol, which is all that a replication connection takes.
  PgResult query(const std::string& sql, TimePoint deadline);

  // Asks the server to give up the command that is under way; waits for the request to arrive, not for its effect.
  void cancel();

  std::string literal(const std::string& text) const;
  std::string identifier(const std::string& text) const;
  int server_version() const { return PQserverVersion(handle_.get()); }
  PGconn* get() const { return handle_.get(); }

  // Called while messages are read, in the order of the stream.
  void on_notice(NoticeReceiver receiver);

 private:
  void connect(const ConnectionKeywords& keywords, TimePoint deadline);
  void flush(TimePoint deadline);

  EventLoop* loop_;
  // On the heap, for libpq keeps its address. Destroyed after the connection that calls it.
  std::unique_ptr<NoticeReceiver> on_notice_;
  PgConnectionHandle handle_;
};

// The error that a failed result or the connection carries.
PgError error_of(const PGresult* result);
PgError error_of(PGconn* connection, const char* doing);

// Why a connection failed that was made with PQERRORS_VERBOSE, which shows libpq's SQLSTATE.
PgError error_of_connect(PGconn* connection);

}  // namespace outbox
