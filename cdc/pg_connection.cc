#include "cdc/pg_connection.h"

#include <fmt/format.h>

#include <array>
#include <regex>

namespace outbox {

namespace {

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  for (auto& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

// libpq gives no SQLSTATE for a failed connection but in its verbose text, "FATAL:  28P01: …", whatever the
// language. The lines after the first of each error (LOCATION: …) are of no use to a person.
PgError connect_error(std::string text) {
  // Behind two blanks: FATAL itself is five capitals behind one.
  static const std::regex code(R"(:  ([0-9A-Z]{5}): )");
  static const std::regex location(R"(\n(?:LOCATION|[A-Z]+):  [A-Za-z_]+, \S+:[0-9]+)");
  text = std::regex_replace(text, location, "");
  std::string sqlstate;
  for (std::sregex_iterator found(text.begin(), text.end(), code), end; found != end; ++found) {
    sqlstate = (*found)[1];
  }
  text = std::regex_replace(text, code, ": ");
  return {one_line(text), sqlstate};
}

void take_notice(void* receiver, const PGresult* result) {
  const auto& on_notice = *static_cast<NoticeReceiver*>(receiver);
  if (!on_notice) return;
  const char* sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  on_notice(sqlstate != nullptr ? sqlstate : "", one_line(PQresultErrorMessage(result)));
}

}  // namespace

PgError error_of(const PGresult* result) {
  const char* sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return {one_line(PQresultErrorMessage(result)), sqlstate != nullptr ? sqlstate : ""};
}

PgError error_of(PGconn* connection, const char* doing) {
  auto text = one_line(PQerrorMessage(connection));
  if (text.empty()) text = "the connection is closed";
  return {fmt::format("{}: {}", doing, text), ""};
}

PgError error_of_connect(PGconn* connection) { return connect_error(PQerrorMessage(connection)); }

PgConnection::PgConnection(const ConnectionKeywords& keywords, EventLoop& loop, TimePoint deadline)
    : loop_(&loop), on_notice_(std::make_unique<NoticeReceiver>()) {
  connect(keywords, deadline);
}

void PgConnection::cancel() {
  const PgCancelRequest request(PQgetCancel(handle_.get()));
  std::array<char, 256> error{};
  if (request) PQcancel(request.get(), error.data(), static_cast<int>(error.size()));
}

void PgConnection::on_notice(NoticeReceiver receiver) { *on_notice_ = std::move(receiver); }

void PgConnection::connect(const ConnectionKeywords& keywords, TimePoint deadline) {
  handle_ = start_connection(keywords);
  PQsetErrorVerbosity(handle_.get(), PQERRORS_VERBOSE);
  PQsetNoticeReceiver(handle_.get(), take_notice, on_notice_.get());

  auto state = PQstatus(handle_.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) throw error_of_connect(handle_.get());
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (!loop_->wait_for(PQsocket(handle_.get()), events, deadline)) {
      throw PgError(fmt::format("connection to server at \"{}\", port {} timed out", PQhost(handle_.get()),
                                PQport(handle_.get())),
                    "");
    }
    state = PQconnectPoll(handle_.get());
  }
  PQsetErrorVerbosity(handle_.get(), PQERRORS_DEFAULT);
  PQsetnonblocking(handle_.get(), 1);
}

void PgConnection::flush(TimePoint deadline) {
  for (;;) {
    const int state = PQflush(handle_.get());
    if (state < 0) throw error_of(handle_.get(), "sending a command to PostgreSQL");
    if (state == 0) return;
    if (!loop_->wait_for(PQsocket(handle_.get()), POLLIN | POLLOUT, deadline)) {
      throw PgError("PostgreSQL takes no command in time", "");
    }
    if (PQconsumeInput(handle_.get()) == 0) throw error_of(handle_.get(), "sending a command to PostgreSQL");
  }
}

PgResult PgConnection::query(const std::string& sql, TimePoint deadline) {
  if (PQsendQuery(handle_.get(), sql.c_str()) == 0) {
    throw error_of(handle_.get(), "sending a command to PostgreSQL");
  }
  flush(deadline);
  PgResult last;
  for (;;) {
    while (PQisBusy(handle_.get()) != 0) {
      if (!loop_->wait_for(PQsocket(handle_.get()), POLLIN, deadline)) {
        throw PgError("PostgreSQL does not answer in time", "");
      }
      if (PQconsumeInput(handle_.get()) == 0) throw error_of(handle_.get(), "reading from PostgreSQL");
    }
    PgResult result(PQgetResult(handle_.get()));
    if (!result) return last;
    const auto status = PQresultStatus(result.get());
    if (status == PGRES_COPY_BOTH) return result;
    if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE) {
      const auto error = error_of(result.get());
      // Takes what is left of this command, so that the connection can be used again.
      while (PgResult rest{PQgetResult(handle_.get())}) {
      }
      throw error;
    }
    last = std::move(result);
  }
}

std::string PgConnection::literal(const std::string& text) const {
  const PgText quoted(PQescapeLiteral(handle_.get(), text.data(), text.size()));
  if (!quoted) throw PgError(one_line(PQerrorMessage(handle_.get())), "22021");
  return quoted.get();
}

std::string PgConnection::identifier(const std::string& text) const {
  const PgText quoted(PQescapeIdentifier(handle_.get(), text.data(), text.size()));
  if (!quoted) throw PgError(one_line(PQerrorMessage(handle_.get())), "22021");
  return quoted.get();
}

}  // namespace outbox
