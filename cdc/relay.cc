#include "cdc/relay.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdc/check.h"
#include "cdc/errors.h"

namespace outbox {

Relay::Relay(const std::vector<OutboxConfig>& outbox, std::size_t max_in_flight)
    : decoder_(outbox), window_(max_in_flight) {}

void Relay::start_stream(Sink& sink, const StreamStart& start, Now now) {
  sink_ = &sink;
  decoder_.restart(start.catalog);
  router_.restart();
  window_.restart(start.position, start.same_history);
  schedule_.restart(now.steady, start.status_interval);
  send_times_.clear();
  blocked_insert_.clear();
  refused_ = 0;
  received_ = start.position;
}

void Relay::receive(std::string_view copy_data, Now now) {
  CHECK(wants_input(), "a frame while none is wanted");
  counts_.received_bytes += copy_data.size();
  const auto frame = decode_frame(copy_data);
  if (const auto* data = std::get_if<XLogData>(&frame)) {
    received_ = std::max(received_, data->wal_start);
    on_message(data->payload, now);
    return;
  }
  const auto& keepalive = std::get<PrimaryKeepalive>(frame);
  ++counts_.keepalives;
  received_ = std::max(received_, keepalive.wal_end);
  // A quiet outbox on a busy database would otherwise pin WAL until the disk fills.
  window_.received_up_to(keepalive.wal_end);
  if (keepalive.reply_requested) schedule_.reply_requested();
}

void Relay::on_message(std::string_view message, Now now) {
  const auto decoded = pgoutput_.decode(message);
  if (const auto* insert = std::get_if<pgoutput::Insert>(&decoded)) {
    ++counts_.inserts;
    on_insert(*insert, message, now);
  } else if (const auto* begin = std::get_if<pgoutput::Begin>(&decoded)) {
    ++counts_.begins;
    on_begin(*begin);
  } else if (const auto* commit = std::get_if<pgoutput::Commit>(&decoded)) {
    ++counts_.commits;
    on_commit(*commit);
    advance_flushed(now);
  } else if (const auto* relation = std::get_if<pgoutput::Relation>(&decoded)) {
    ++counts_.relations;
    decoder_.learn(*relation);
    router_.learn(relation->oid);
  } else {
    ++counts_.skipped_messages;
  }
}

void Relay::on_begin(const pgoutput::Begin& begin) {
  if (window_.in_transaction()) {
    throw ProtocolError("a transaction begins before the one before it has committed");
  }
  begin_ = begin;
  window_.open(begin.final_lsn, begin.xid, begin.commit_time);
}

void Relay::on_commit(const pgoutput::Commit& commit) {
  if (!window_.in_transaction() || commit.commit_lsn != begin_.final_lsn) {
    throw ProtocolError(fmt::format("a Commit at {} that belongs to no Begin", to_string(commit.commit_lsn)));
  }
  if (commit.end_lsn <= commit.commit_lsn || commit.end_lsn < flushed_lsn()) {
    throw ProtocolError(fmt::format("a Commit at {} that ends at {}", to_string(commit.commit_lsn),
                                    to_string(commit.end_lsn)));
  }
  received_ = std::max(received_, commit.end_lsn);
  window_.committed(commit.end_lsn);
}

void Relay::on_insert(const pgoutput::Insert& insert, std::string_view message, Now now) {
  if (!window_.in_transaction()) throw ProtocolError("an Insert outside a transaction");
  const auto event = decoder_.decode(insert);
  if (window_.delivered_before()) {
    window_.record_skipped();
    ++counts_.records_suppressed;
    return;
  }
  const auto commit_ms = std::chrono::floor<std::chrono::milliseconds>(begin_.commit_time);
  const Record* record = nullptr;
  try {
    record = &router_.route(event, commit_ms.time_since_epoch().count());
  } catch (const HaltError& problem) {
    halt_on(event, problem.what());
  }
  if (sink_->send(*record, window_.next_ticket()) == Sink::SendResult::full) {
    blocked_insert_ = message;
    return;
  }
  const auto ticket = window_.record_sent();
  send_times_.record_sent(to_number(ticket), now.steady);
}

void Relay::advance_flushed(Now now) {
  while (const auto delivered = window_.pop_delivered()) {
    if (delivered->records == 0) continue;
    ++counts_.transactions_delivered;
    const std::chrono::duration<double> age = now.wall - delivered->commit_time;
    ages_.observe(age.count(), delivered->records);
  }
}

void Relay::settle(Now now) {
  reports_.clear();
  sink_->collect(reports_);
  for (const auto ticket : reports_.delivered) window_.record_delivered(ticket);
  counts_.records_delivered += reports_.delivered.size();
  counts_.records_failed += reports_.failed.size();
  refused_ += reports_.failed.size();
  advance_flushed(now);
}

void Relay::collect(Now now) {
  settle(now);
  if (!reports_.failed.empty()) halt_on(reports_.failed.front());
  if (blocked_insert_.empty()) return;
  const auto message = std::exchange(blocked_insert_, {});
  const auto decoded = pgoutput_.decode(message);
  on_insert(std::get<pgoutput::Insert>(decoded), message, now);
}

StandbyStatusUpdate Relay::take_status(Now now, bool reply_requested) {
  const auto flushed = flushed_lsn();
  schedule_.sent(now.steady, flushed);
  ++counts_.status_updates;
  return {.written = std::max(received_, flushed),
          .flushed = flushed,
          .applied = flushed,
          .reply_requested = reply_requested};
}

std::chrono::steady_clock::duration Relay::oldest_unacked_age(Now now) {
  return send_times_.oldest_age(window_.oldest_out(), window_.end(), now.steady);
}

namespace {

// The event's own id, where the table has one: an id may stand in a log, a payload never.
std::string id_of(const OutboxEvent& event) {
  const auto column = event.table->find("id");
  if (!column || event.values[*column].is_null()) return "without an id";
  return fmt::format("id {}", event.values[*column].text.substr(0, 100));
}

std::string place_of(const EventPosition& position) {
  return fmt::format("transaction {} committed at {}, its insert number {}", position.xid,
                     to_string(position.commit_lsn), position.ordinal + 1);
}

}  // namespace

void Relay::halt_on(const OutboxEvent& event, const std::string& problem) const {
  throw HaltError(fmt::format("the event {} in {} cannot be sent ({}): {}", id_of(event),
                              event.table->name(), place_of(window_.next_position()), problem));
}

void Relay::halt_on(const DeliveryFailure& failure) const {
  throw HaltError(fmt::format("topic \"{}\" refuses an event ({}): {}. {}", failure.topic,
                              place_of(window_.describe(failure.ticket)), failure.reason,
                              failure.remedy));
}

}  // namespace outbox
