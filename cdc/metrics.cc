#include "cdc/metrics.h"

#include <prometheus/text_serializer.h>

#include <chrono>

#include "cdc/process_metrics.h"
#include "cdc/version.h"

namespace outbox {

namespace {

constexpr std::array wal_statuses{"reserved", "extended", "unreserved", "lost"};
constexpr std::array reconnect_reasons{"connection_lost", "server_shutdown", "terminated",
                                       "protocol_error",  "sink_broken",     "fenced",
                                       "halted",          "dead_letter",     "other"};
constexpr std::array rebuild_reasons{"fatal", "batch_size", "credentials", "dead_letter"};

double as_double(Lsn lsn) { return static_cast<double>(lsn.value); }

// Never negative: positions read a moment apart may cross.
double distance(Lsn from, Lsn to) { return to > from ? static_cast<double>(to.value - from.value) : 0.0; }

}  // namespace

Metrics::Metrics(const std::string& slot_name)
    : slot_{{"slot_name", slot_name}},
      safe_wal_(prometheus::BuildGauge()
                    .Name("outbox_relay_slot_safe_wal_bytes")
                    .Help("WAL that may still be written before the slot is in danger; absent without a limit.")
                    .Register(registry_)),
      connected_(gauge("outbox_relay_source_connected", "1 while the replication stream is open.", slot_)),
      received_bytes_(
          counter("outbox_relay_source_received_bytes_total", "Bytes received in the replication stream.", slot_)),
      begins_(counter("outbox_relay_source_messages_total", "Messages received in the replication stream, by type.",
                      {{"slot_name", slot_name}, {"type", "begin"}})),
      inserts_(counter("outbox_relay_source_messages_total", "", {{"slot_name", slot_name}, {"type", "insert"}})),
      commits_(counter("outbox_relay_source_messages_total", "", {{"slot_name", slot_name}, {"type", "commit"}})),
      relations_(counter("outbox_relay_source_messages_total", "", {{"slot_name", slot_name}, {"type", "relation"}})),
      skipped_(counter("outbox_relay_source_messages_total", "", {{"slot_name", slot_name}, {"type", "other"}})),
      keepalives_(counter("outbox_relay_source_messages_total", "", {{"slot_name", slot_name}, {"type", "keepalive"}})),
      transactions_(counter("outbox_relay_transactions_total",
                            "Transactions with at least one event whose events are all acknowledged.", slot_)),
      delivered_(counter("outbox_relay_events_total", "Events, by what became of them.",
                         {{"slot_name", slot_name}, {"outcome", "delivered"}})),
      suppressed_(
          counter("outbox_relay_events_total", "", {{"slot_name", slot_name}, {"outcome", "duplicate_suppressed"}})),
      dead_letters_(counter("outbox_relay_events_total", "", {{"slot_name", slot_name}, {"outcome", "dead_lettered"}})),
      null_keys_(
          counter("outbox_relay_null_keys_total", "Events sent without a key because on_null.key is send.", slot_)),
      progress_(counter("outbox_relay_confirmations_total", "Standby status updates sent, by why they went out.",
                        {{"slot_name", slot_name}, {"kind", "progress"}})),
      requested_(counter("outbox_relay_confirmations_total", "", {{"slot_name", slot_name}, {"kind", "requested"}})),
      keepalive_(counter("outbox_relay_confirmations_total", "", {{"slot_name", slot_name}, {"kind", "keepalive"}})),
      halts_(counter("outbox_relay_halts_total", "Times the relay has halted.")),
      backpressure_seconds_(counter("outbox_relay_backpressure_seconds_total",
                                    "Seconds in which the sink was full and nothing was read.")),
      backpressure_(gauge("outbox_relay_backpressure_active", "1 while the sink is full and nothing is read.")),
      received_lsn_(gauge("outbox_relay_received_lsn", "Highest position received, as a number.", slot_)),
      flushed_lsn_(gauge("outbox_relay_acked_lsn", "Position up to which everything is acknowledged.", slot_)),
      confirmed_lsn_(gauge("outbox_relay_confirmed_lsn", "Highest position confirmed to PostgreSQL.", slot_)),
      lag_bytes_(
          gauge("outbox_relay_source_lag_bytes", "Server's WAL end minus the slot's confirmed position.", slot_)),
      retained_bytes_(
          gauge("outbox_relay_slot_retained_bytes", "Server's WAL end minus the slot's restart position.", slot_)),
      publication_ok_(
          gauge("outbox_relay_publication_ok", "1 while the publication exists and has every outbox table in it.")),
      last_message_(gauge("outbox_relay_last_source_message_timestamp_seconds",
                          "Unix time of the last message from the server, keepalives included.", slot_)),
      oldest_unacked_(
          gauge("outbox_relay_oldest_unacked_age_seconds", "How long the oldest unacknowledged record has waited.")),
      events_in_flight_(gauge("outbox_relay_inflight_events", "Records sent and not yet acknowledged.")),
      bytes_in_flight_(gauge("outbox_relay_inflight_bytes",
                             "Bytes of records sent and not yet acknowledged, and of the one held back.")),
      buffer_limit_(gauge("outbox_relay_buffer_limit_bytes", "What may be held: nothing is read above it.")),
      transactions_in_flight_(
          gauge("outbox_relay_inflight_transactions", "Transactions read and not yet wholly acknowledged.")),
      reload_success_(gauge("outbox_relay_config_reload_success", "Whether the file could be read when it last was.")),
      reload_time_(gauge("outbox_relay_config_reload_timestamp_seconds", "Unix time when the file was last read.")),
      log_lines_dropped_(
          counter("outbox_relay_log_lines_dropped_total", "Log lines that nobody read in time, and so were dropped.")),
      event_age_(prometheus::BuildHistogram()
                     .Name("outbox_relay_event_age_seconds")
                     .Help("From the commit of an event to the acknowledgement of its whole transaction.")
                     .Register(registry_)
                     .Add({}, prometheus::Histogram::BucketBoundaries(AgeHistogram::bounds.begin(),
                                                                      AgeHistogram::bounds.end()))) {
  for (const auto state : all_states) {
    states_[state] =
        &gauge("outbox_relay_up_state", "1 for the state that the relay is in.", {{"state", to_string(state)}});
  }
  states_[State::starting]->Set(1);
  for (const char* status : wal_statuses) {
    wal_statuses_[status] = &gauge("outbox_relay_slot_wal_status", "1 for the slot's wal_status.",
                                   {{"slot_name", slot_name}, {"status", status}});
  }
  for (const char* reason : reconnect_reasons) reconnects(reason);
  for (const char* reason : rebuild_reasons) rebuilds(reason);
  for (std::size_t index = 0; index < failure_class_names.size(); ++index) {
    auto labels = slot_;
    labels["reason"] = failure_class_names[index];
    failed_[index] =
        &counter("outbox_relay_events_failed_total",
                 "Refusals for good of events, by reason; each halts the relay or makes a dead letter.", labels);
    dead_lettered_[index] =
        &counter("outbox_relay_dead_lettered_total",
                 "Events acknowledged in the dead-letter topic instead of their own, by reason.", labels);
  }
  const auto build = build_info();
  gauge("outbox_relay_build_info", "Always 1; the labels say which build this is.",
        {{"version", build.version},
         {"revision", build.revision},
         {"librdkafka", build.librdkafka},
         {"libpq", build.libpq},
         {"compiler", build.compiler}})
      .Set(1);
}

prometheus::Counter& Metrics::counter(const char* name, const char* help, const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Gauge& Metrics::gauge(const char* name, const char* help, const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Counter& Metrics::reconnects(const std::string& reason) {
  auto labels = slot_;
  labels["reason"] = reason;
  return counter("outbox_relay_source_reconnects_total", "Streams that ended before the relay wanted to, by reason.",
                 labels);
}

prometheus::Counter& Metrics::rebuilds(const std::string& reason) {
  return counter("outbox_relay_kafka_producer_rebuilds_total", "Producers that were replaced in process, by reason.",
                 {{"reason", reason}});
}

void Metrics::advance(prometheus::Counter& counter, std::uint64_t& last, std::uint64_t now) {
  counter.Increment(static_cast<double>(now - last));
  last = now;
}

void Metrics::update(const Status& status, const RelayCounts& counts, const AgeHistogram& ages,
                     std::uint64_t null_keys) {
  for (const auto& [state, gauge] : states_) gauge->Set(state == status.state ? 1 : 0);
  backpressure_.Set(status.state == State::blocked ? 1 : 0);
  advance(received_bytes_, last_.received_bytes, counts.received_bytes);
  advance(begins_, last_.begins, counts.begins);
  advance(inserts_, last_.inserts, counts.inserts);
  advance(commits_, last_.commits, counts.commits);
  advance(relations_, last_.relations, counts.relations);
  advance(skipped_, last_.skipped_messages, counts.skipped_messages);
  advance(keepalives_, last_.keepalives, counts.keepalives);
  advance(transactions_, last_.transactions_delivered, counts.transactions_delivered);
  advance(delivered_, last_.records_delivered, counts.records_delivered);
  advance(suppressed_, last_.records_suppressed, counts.records_suppressed);
  for (std::size_t index = 0; index < failed_.size(); ++index) {
    advance(*failed_[index], last_.records_failed[index], counts.records_failed[index]);
    dead_letters_.Increment(static_cast<double>(counts.dead_lettered[index] - last_.dead_lettered[index]));
    advance(*dead_lettered_[index], last_.dead_lettered[index], counts.dead_lettered[index]);
  }
  advance(progress_, last_.confirmations_progress, counts.confirmations_progress);
  advance(requested_, last_.confirmations_requested, counts.confirmations_requested);
  advance(keepalive_, last_.confirmations_keepalive, counts.confirmations_keepalive);
  advance(null_keys_, last_null_keys_, null_keys);
  received_lsn_.Set(as_double(status.received_lsn));
  flushed_lsn_.Set(as_double(status.flushed_lsn));
  confirmed_lsn_.Set(as_double(status.confirmed_lsn));
  oldest_unacked_.Set(status.oldest_unacked_seconds);
  bytes_in_flight_.Set(static_cast<double>(status.bytes_in_flight));
  buffer_limit_.Set(static_cast<double>(status.buffer_limit_bytes));
  events_in_flight_.Set(static_cast<double>(status.events_in_flight));
  transactions_in_flight_.Set(static_cast<double>(status.transactions_in_flight));
  event_age_.ObserveMultiple({ages.counts.begin(), ages.counts.end()}, ages.sum);
}

void Metrics::catalog(const Catalog& catalog, bool publication_ok) {
  publication_ok_.Set(publication_ok ? 1 : 0);
  if (!catalog.slot) return;
  const auto& slot = *catalog.slot;
  lag_bytes_.Set(distance(slot.confirmed_flush_lsn, catalog.wal_end));
  retained_bytes_.Set(slot.restart_lsn ? distance(slot.restart_lsn, catalog.wal_end) : 0.0);
  for (const auto& [status, gauge] : wal_statuses_) gauge->Set(status == slot.wal_status ? 1 : 0);
  if (slot.safe_wal_bytes) {
    if (safe_wal_bytes_ == nullptr) safe_wal_bytes_ = &safe_wal_.Add(slot_);
    safe_wal_bytes_->Set(static_cast<double>(*slot.safe_wal_bytes));
  } else if (safe_wal_bytes_ != nullptr) {
    safe_wal_.Remove(safe_wal_bytes_);
    safe_wal_bytes_ = nullptr;
  }
}

void Metrics::server_message(WallTime when) {
  last_message_.Set(std::chrono::duration<double>(when.time_since_epoch()).count());
}

void Metrics::reloaded(bool success, WallTime when) {
  reload_success_.Set(success ? 1 : 0);
  reload_time_.Set(std::chrono::duration<double>(when.time_since_epoch()).count());
}

void Metrics::log_lines_dropped(std::uint64_t total) {
  log_lines_dropped_.Increment(static_cast<double>(total) - log_lines_dropped_.Value());
}

void Metrics::connected(bool in_copy_mode) { connected_.Set(in_copy_mode ? 1 : 0); }

std::string Metrics::scrape() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect()) + process_metrics();
}

}  // namespace outbox
