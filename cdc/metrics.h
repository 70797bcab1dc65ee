// Every metric of the relay, by name; README lists them and a test compares the two.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <map>
#include <string>

#include "cdc/catalog.h"
#include "cdc/relay.h"
#include "cdc/status_board.h"

namespace outbox {

// The loop updates, any thread may scrape; a scrape waits for neither PostgreSQL nor Kafka.
class Metrics {
 public:
  explicit Metrics(const std::string& slot_name);

  void update(const Status& status, const RelayCounts& counts, const AgeHistogram& ages, std::uint64_t null_keys);
  void catalog(const Catalog& catalog, bool publication_ok);
  void server_message(WallTime when);
  void connected(bool in_copy_mode);
  void reconnecting(const std::string& reason) { reconnects(reason).Increment(); }
  void reloaded(bool success, WallTime when);
  void log_lines_dropped(std::uint64_t total);
  void halted() { halts_.Increment(); }
  void producer_rebuilt(const std::string& reason) { rebuilds(reason).Increment(); }
  void backpressure(double seconds) { backpressure_seconds_.Increment(seconds); }

  // Prometheus text format 0.0.4.
  std::string scrape() const;

 private:
  using Labels = std::map<std::string, std::string>;
  prometheus::Counter& counter(const char* name, const char* help, const Labels& labels = {});
  prometheus::Gauge& gauge(const char* name, const char* help, const Labels& labels = {});
  prometheus::Counter& reconnects(const std::string& reason);
  prometheus::Counter& rebuilds(const std::string& reason);
  static void advance(prometheus::Counter& counter, std::uint64_t& last, std::uint64_t now);

  prometheus::Registry registry_;
  Labels slot_;
  RelayCounts last_;
  std::uint64_t last_null_keys_ = 0;

  std::map<State, prometheus::Gauge*> states_;
  std::map<std::string, prometheus::Gauge*> wal_statuses_;
  prometheus::Family<prometheus::Gauge>& safe_wal_;
  prometheus::Gauge* safe_wal_bytes_ = nullptr;  // Absent while the server sets no limit.
  prometheus::Gauge& connected_;
  prometheus::Counter& received_bytes_;
  prometheus::Counter& begins_;
  prometheus::Counter& inserts_;
  prometheus::Counter& commits_;
  prometheus::Counter& relations_;
  prometheus::Counter& skipped_;
  prometheus::Counter& keepalives_;
  prometheus::Counter& transactions_;
  prometheus::Counter& delivered_;
  prometheus::Counter& suppressed_;
  std::array<prometheus::Counter*, failure_class_names.size()> failed_{};         // By FailureClass.
  std::array<prometheus::Counter*, failure_class_names.size()> dead_lettered_{};  // Likewise.
  prometheus::Counter& dead_letters_;
  prometheus::Counter& null_keys_;
  prometheus::Counter& progress_;
  prometheus::Counter& requested_;
  prometheus::Counter& keepalive_;
  prometheus::Counter& halts_;
  prometheus::Counter& backpressure_seconds_;
  prometheus::Gauge& backpressure_;
  prometheus::Gauge& received_lsn_;
  prometheus::Gauge& flushed_lsn_;
  prometheus::Gauge& confirmed_lsn_;
  prometheus::Gauge& lag_bytes_;
  prometheus::Gauge& retained_bytes_;
  prometheus::Gauge& publication_ok_;
  prometheus::Gauge& last_message_;
  prometheus::Gauge& oldest_unacked_;
  prometheus::Gauge& events_in_flight_;
  prometheus::Gauge& bytes_in_flight_;
  prometheus::Gauge& buffer_limit_;
  prometheus::Gauge& transactions_in_flight_;
  prometheus::Gauge& reload_success_;
  prometheus::Gauge& reload_time_;
  prometheus::Counter& log_lines_dropped_;
  prometheus::Histogram& event_age_;
};

}  // namespace outbox
