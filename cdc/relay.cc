#include "cdc/relay.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdc/check.h"
#include "cdc/errors.h"

namespace outbox {

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

Relay::Relay(const std::vector<OutboxConfig>& outbox, std::size_t max_in_flight, DeliveryConfig delivery,
             std::uint64_t budget_bytes)
    : decoder_(outbox),
      window_(max_in_flight),
      bytes_(max_in_flight),
      dead_letters_(std::move(delivery)),
      budget_bytes_(budget_bytes) {}

void Relay::start_stream(Sink& sink, const StreamStart& start, Now now) {
  sink_ = &sink;
  decoder_.restart(start.catalog);
  router_.restart();
  window_.restart(start.position, start.same_history);
  schedule_.restart(now.steady, start.status_interval);
  send_times_.clear();
  blocked_insert_.clear();
  refused_ = 0;
  refused_at_once_ = false;
  halt_.clear();
  letter_due_.clear();
  bytes_.clear();
  dead_letters_.restart();
  received_ = start.position;
  last_end_ = start.position;
  resume_ = start.resume;
  judge_checkpoint_ = start.judge_checkpoint;
  checkpointed_ = {};
  checkpoint_under_way_.reset();
  checkpoint_asked_ = {};
  if (!start.same_history) last_delivered_.reset();
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
  if (!window_.in_transaction()) passing(keepalive.wal_end);
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
  const auto before = std::max(last_end_, flushed_lsn());
  if (begin.final_lsn < before) {
    throw ProtocolError(fmt::format("a transaction committed at {} after what ends at {}", to_string(begin.final_lsn),
                                    to_string(before)));
  }
  const auto anchor = resume_ && begin.final_lsn == resume_->commit_lsn ? resume_->anchor : std::nullopt;
  const bool resumed = anchor && begin.xid == anchor->xid && begin.commit_time == anchor->commit_time;
  if (!resumed && resume_ && begin.final_lsn >= resume_->commit_lsn) passing(Lsn{begin.final_lsn.value + 1});
  begin_ = begin;
  window_.open(begin.final_lsn, begin.xid, begin.commit_time);
}

// A restored server has its old identity: only what it sends shows that it is another one.
void Relay::passing(Lsn position) {
  if (!resume_ || position <= resume_->commit_lsn) return;
  if (resume_->anchor) {
    throw HistoryChanged(
        fmt::format("the server's log does not hold the transaction {} committed at {}, which was delivered",
                    resume_->anchor->xid, to_string(resume_->commit_lsn)));
  }
  resume_.reset();
}

bool Relay::delivered_before() const {
  if (!resume_) return window_.delivered_before();
  if (begin_.final_lsn < resume_->commit_lsn) return true;
  return window_.next_position().ordinal < resume_->anchor->records || window_.delivered_before();
}

void Relay::on_commit(const pgoutput::Commit& commit) {
  if (!window_.in_transaction() || commit.commit_lsn != begin_.final_lsn) {
    throw ProtocolError(fmt::format("a Commit at {} that belongs to no Begin", to_string(commit.commit_lsn)));
  }
  if (commit.end_lsn <= commit.commit_lsn) {
    throw ProtocolError(
        fmt::format("a Commit at {} that ends at {}", to_string(commit.commit_lsn), to_string(commit.end_lsn)));
  }
  last_end_ = commit.end_lsn;
  if (resume_ && commit.commit_lsn >= resume_->commit_lsn) resume_.reset();
  received_ = std::max(received_, commit.end_lsn);
  window_.committed(commit.end_lsn);
}

OutboxEvent Relay::decode(const pgoutput::Insert& insert) const {
  try {
    return decoder_.decode(insert);
  } catch (const UnknownRelation& problem) {
    throw UnknownRelation(fmt::format("{} ({})", problem.what(), place_of(window_.next_position())));
  }
}

void Relay::on_insert(const pgoutput::Insert& insert, std::string_view message, Now now) {
  if (!window_.in_transaction()) throw ProtocolError("an Insert outside a transaction");
  const auto event = decode(insert);
  if (delivered_before()) {
    window_.record_skipped();
    ++counts_.records_suppressed;
    return;
  }
  const Record* record = nullptr;
  try {
    record = &router_.route(event, commit_ms());
  } catch (const HaltError& problem) {
    const bool topic = dynamic_cast<const InvalidTopic*>(&problem) != nullptr;
    const auto failure_class = topic ? FailureClass::invalid_topic : FailureClass::unmappable;
    if (!dead_letters_.takes(failure_class)) {
      ++counts_.records_failed[static_cast<std::size_t>(failure_class)];
      halt_on(event, problem.what());
    }
    const Verdict verdict{
        .failure_class = failure_class, .reason = problem.what(), .topic = {}, .attempts = 0, .as_pointer = false};
    return send_letter(nullptr, event, verdict, message, now);
  }
  send(*record, event, message, now);
}

void Relay::send(const Record& record, const OutboxEvent& event, std::string_view message, Now now) {
  const auto* verdict = dead_letters_.no_verdicts()
                            ? nullptr
                            : dead_letters_.verdict_on(window_.next_position(), record.topic, now.steady);
  if (verdict != nullptr) return send_letter(&record, event, *verdict, message, now);
  if (accepted(record, message, now)) return;
  const auto failure = sink_->refusal();
  const auto position = window_.next_position();
  if (!dead_letters_.judge(failure, position, now.steady)) halt_on(event, failure);
  send_letter(&record, event, *dead_letters_.verdict_on(position, record.topic, now.steady), message, now);
}

// Nothing of the event has left: its letter goes in its place, and the stream goes on.
void Relay::send_letter(const Record* record, const OutboxEvent& event, Verdict verdict, std::string_view message,
                        Now now) {
  const auto position = window_.next_position();
  const auto ticket = window_.next_ticket();
  const auto* known = dead_letters_.verdict_on(position, {}, now.steady);
  verdict.as_pointer = verdict.as_pointer || (known != nullptr && known->as_pointer);
  for (;;) {
    const auto& letter = dead_letters_.letter(record, event, position, verdict, commit_ms());
    if (accepted(letter, message, now)) break;
    const auto failure = sink_->refusal();
    if (failure.failure_class != FailureClass::too_large || verdict.as_pointer) halt_on(event, failure);
    verdict.as_pointer = true;
  }
  if (!blocked_insert_.empty()) return;
  dead_letters_.sent(ticket, position, verdict.failure_class);
  const bool never_a_record = record == nullptr;
  if (never_a_record) ++counts_.records_failed[static_cast<std::size_t>(verdict.failure_class)];
}

// False where the sink refused the record at once; where it is full, the message is held back.
bool Relay::accepted(const Record& record, std::string_view message, Now now) {
  switch (sink_->send(record, window_.next_ticket())) {
    case Sink::SendResult::full:
      blocked_insert_ = message;
      return true;
    case Sink::SendResult::refused: {
      const auto failure_class = sink_->refusal().failure_class;
      ++counts_.records_failed[static_cast<std::size_t>(failure_class)];
      return false;
    }
    case Sink::SendResult::accepted:
      break;
  }
  const auto ticket = window_.record_sent();
  bytes_.sent(ticket, outbox::held_bytes(record));
  send_times_.record_sent(to_number(ticket), now.steady);
  return true;
}

std::int64_t Relay::commit_ms() const {
  return std::chrono::floor<std::chrono::milliseconds>(begin_.commit_time).time_since_epoch().count();
}

void Relay::advance_flushed(Now now) {
  while (const auto delivered = window_.pop_delivered()) {
    if (delivered->records == 0) continue;
    const bool again = last_delivered_ && delivered->commit_lsn <= last_delivered_->commit_lsn;
    if (again) continue;
    last_delivered_ = delivered;
    dead_letters_.passed(delivered->commit_lsn);
    ++counts_.transactions_delivered;
    const std::chrono::duration<double> age = now.wall - delivered->commit_time;
    ages_.observe(age.count(), delivered->records);
  }
}

void Relay::settle(Now now) {
  reports_.clear();
  try {
    sink_->collect(reports_);
  } catch (const SinkBroken&) {
    take_reports(now);  // What it reported before it broke need not be sent again.
    throw;
  }
  take_reports(now);
}

void Relay::take_reports(Now now) {
  for (const auto ticket : reports_.delivered) {
    window_.record_delivered(ticket);
    bytes_.reported(ticket);
    if (const auto failure_class = dead_letters_.delivered(ticket)) {
      ++counts_.dead_lettered[static_cast<std::size_t>(*failure_class)];
    } else {
      ++counts_.records_delivered;
    }
  }
  judge(reports_.failed, now);
  for (const auto ticket : reports_.given_up) bytes_.reported(ticket);
  refused_ += reports_.given_up.size();
  advance_flushed(now);
  if (reports_.checkpoint_written && checkpoint_under_way_) {
    checkpointed_ = std::max(checkpointed_, *std::exchange(checkpoint_under_way_, std::nullopt));
  }
}

void Relay::take_stored_checkpoint() {
  if (!reports_.stored_checkpoint || !judge_checkpoint_) return;
  const auto resumption = judge_checkpoint_(reports_.stored_checkpoint->text);
  judge_checkpoint_ = nullptr;
  resume_ = resumption.resume;
  checkpointed_ = resumption.flushed;
}

Progress Relay::next_checkpoint(bool with_sent) {
  auto progress = with_sent ? window_.when_delivered() : Progress{.flushed = flushed_lsn(), .last = std::nullopt};
  if (!progress.last && last_delivered_) {
    progress.last = {.commit_lsn = last_delivered_->commit_lsn,
                     .xid = last_delivered_->xid,
                     .commit_time = last_delivered_->commit_time,
                     .records = DeliveredPart::all};
  }
  checkpoint_under_way_ = progress.flushed;
  return progress;
}

Lsn Relay::confirmable_lsn() const {
  if (resume_) return {};
  return sink_->keeps_checkpoint() ? std::min(flushed_lsn(), checkpointed_) : flushed_lsn();
}

bool Relay::checkpoint_current() const {
  return !sink_->keeps_checkpoint() || resume_ || awaits_checkpoint() || flushed_lsn() <= checkpointed_;
}

TimePoint Relay::checkpoint_due_at() const {
  if (checkpoint_current() || checkpoint_under_way_) return TimePoint::max();
  return checkpoint_asked_ + StatusSchedule::longest_confirm_delay;
}

void Relay::write_checkpoint(Now now, bool at_once) {
  if (checkpoint_current() || checkpoint_under_way_) return;
  if (!at_once && now.steady < checkpoint_due_at()) return;
  if (sink_->write_checkpoint()) checkpoint_asked_ = now.steady;
}

void Relay::judge(const std::vector<DeliveryFailure>& failures, Now now) {
  for (const auto& failure : failures) {
    bytes_.reported(failure.ticket);
    ++refused_;
    ++counts_.records_failed[static_cast<std::size_t>(failure.failure_class)];
    const auto position = window_.describe(failure.ticket);
    const bool letter = dead_letters_.judge(failure, position, now.steady);
    auto& said = letter ? letter_due_ : halt_;
    if (said.empty()) {
      said = fmt::format("topic \"{}\" refuses an event ({}): {}. {}", failure.topic, place_of(position),
                         failure.reason, failure.remedy);
    }
  }
}

void Relay::collect(Now now) {
  const bool held_up = window_.full() || bytes_.total() >= budget_bytes_;
  if (held_up) sink_->flush();
  settle(now);
  if (!halt_.empty()) throw HaltError(halt_);
  if (!letter_due_.empty()) {
    throw DeadLetterDue(fmt::format("{}. It goes to topic \"{}\"", letter_due_, dead_letters_.topic()));
  }
  take_stored_checkpoint();
  if (blocked_insert_.empty()) return;
  if (refused_ > 0) return;  // The sink sends nothing more.
  const auto message = std::exchange(blocked_insert_, {});
  const auto decoded = pgoutput_.decode(message);
  on_insert(std::get<pgoutput::Insert>(decoded), message, now);
}

void Relay::count_status(StatusSchedule::Reason reason) {
  switch (reason) {
    case StatusSchedule::Reason::progress:
      ++counts_.confirmations_progress;
      return;
    case StatusSchedule::Reason::requested:
      ++counts_.confirmations_requested;
      return;
    case StatusSchedule::Reason::keepalive:
      ++counts_.confirmations_keepalive;
      return;
  }
}

StandbyStatusUpdate Relay::take_status(Now now, bool reply_requested) {
  const auto flushed = confirmable_lsn();
  count_status(schedule_.reason(flushed));
  schedule_.sent(now.steady, flushed);
  return {.written = std::max(received_, flushed),
          .flushed = flushed,
          .applied = flushed,
          .reply_requested = reply_requested};
}

std::chrono::steady_clock::duration Relay::oldest_unacked_age(Now now) {
  return send_times_.oldest_age(window_.oldest_out(), window_.end(), now.steady);
}

void Relay::halt_on(const OutboxEvent& event, const std::string& problem) const {
  throw HaltError(fmt::format("the event {} in {} cannot be sent ({}): {}", id_of(event), event.table->name(),
                              place_of(window_.next_position()), problem));
}

void Relay::halt_on(const OutboxEvent& event, const DeliveryFailure& failure) {
  refused_at_once_ = true;
  throw HaltError(fmt::format("topic \"{}\" refuses the event {} in {} ({}): {}. {}", failure.topic, id_of(event),
                              event.table->name(), place_of(window_.next_position()), failure.reason, failure.remedy));
}

}  // namespace outbox
