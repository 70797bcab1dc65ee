#include "cdc/catalog_probe.h"

#include <spdlog/spdlog.h>

#include "cdc/conninfo.h"
#include "cdc/exit_codes.h"
#include "cdc/pg_connection.h"

namespace outbox {

CatalogProbe::CatalogProbe(const Config& config, ConnectionKeywords server, TimePoint first)
    : config_(config), server_(std::move(server)), next_at_(first) {}

pollfd CatalogProbe::descriptor() const {
  return {.fd = connection_ ? PQsocket(connection_.get()) : -1, .events = events_, .revents = 0};
}

void CatalogProbe::begin(TimePoint now) {
  began_at_ = now;
  next_at_ = now + interval;
  connected_ = false;
  giving_sign_of_life_ = false;
  connection_.reset();
  ConnectionKeywords keywords;
  try {
    keywords = connection_keywords(config_.source, ConnectionKind::plain);
  } catch (const FatalError& error) {
    spdlog::warn("catalog probe: {}", error.what());
    return;
  }
  keywords.insert(keywords.end(), server_.begin(), server_.end());
  connection_ = start_connection(keywords);
  PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);
  PQsetNoticeReceiver(
      connection_.get(), [](void*, const PGresult*) {}, nullptr);
  events_ = POLLOUT;
}

void CatalogProbe::hurry() { next_at_ = std::min(next_at_, began_at_ + hurried_interval); }

// A server that streams to us is not starting up: what refuses connections for now is its end.
void CatalogProbe::refused(TimePoint now) {
  const auto error = error_of_connect(connection_.get());
  spdlog::debug("catalog probe: {}", error.what());
  connection_.reset();
  if (error.sqlstate() != sqlstate::cannot_connect_now) return;
  if (!shutting_down_since_) shutting_down_since_ = now;
  next_at_ = now + std::chrono::seconds(1);
}

std::optional<Catalog> CatalogProbe::read_answer() {
  std::optional<Catalog> catalog;
  while (const PgResult result{PQgetResult(connection_.get())}) {
    if (PQresultStatus(result.get()) == PGRES_TUPLES_OK && PQntuples(result.get()) == 1) {
      catalog = parse_catalog(PQgetvalue(result.get(), 0, 0));
    }
  }
  giving_sign_of_life_ =
      catalog && catalog->wal_is_kept_by_idleness() && PQsendQuery(connection_.get(), sign_of_life_query) == 1;
  if (!giving_sign_of_life_) connection_.reset();
  return catalog;
}

void CatalogProbe::finish_sign_of_life() {
  const PgResult result(PQgetResult(connection_.get()));
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) {
    spdlog::debug("catalog probe: no sign of life: {}", PQresultErrorMessage(result.get()));
  }
  connection_.reset();
}

std::optional<Catalog> CatalogProbe::turn(TimePoint now) {
  if (now >= next_at_) begin(now);
  if (!connection_) return std::nullopt;
  if (!connected_) {
    const auto state =
        PQstatus(connection_.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PQconnectPoll(connection_.get());
    if (state == PGRES_POLLING_FAILED) {
      refused(now);
      return std::nullopt;
    }
    events_ = state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
    if (state != PGRES_POLLING_OK) return std::nullopt;
    connected_ = true;
    shutting_down_since_.reset();
    const auto query = catalog_query(config_, PQserverVersion(connection_.get()), [this](const std::string& text) {
      const PgText quoted(PQescapeLiteral(connection_.get(), text.data(), text.size()));
      return std::string(quoted ? quoted.get() : "''");
    });
    PQsendQuery(connection_.get(), query.c_str());
  }
  if (PQconsumeInput(connection_.get()) == 0) {
    connection_.reset();
    return std::nullopt;
  }
  if (PQisBusy(connection_.get()) != 0) return std::nullopt;
  if (!giving_sign_of_life_) return read_answer();
  finish_sign_of_life();
  return std::nullopt;
}

}  // namespace outbox
