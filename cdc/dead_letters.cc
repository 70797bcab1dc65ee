#include "cdc/dead_letters.h"

namespace outbox {

namespace {

// A part of an event that could not be mapped, where the row has it.
std::optional<std::string_view> part(const OutboxEvent& event, std::string_view name) {
  const auto column = event.table->find(name);
  if (!column || *column >= event.values.size() || event.values[*column].is_null()) return std::nullopt;
  return event.values[*column].text;
}

}  // namespace

bool DeadLetters::takes(FailureClass failure_class) const {
  const auto index = static_cast<std::size_t>(failure_class);
  return index < delivery_.on_failure.size() && delivery_.on_failure[index] == OnFailure::dead_letter;
}

void DeadLetters::passed(Lsn commit_lsn) {
  while (!of_events_.empty() && of_events_.begin()->first.commit_lsn <= commit_lsn)
    of_events_.erase(of_events_.begin());
}

const Verdict* DeadLetters::verdict_on(const EventPosition& position, std::string_view topic, TimePoint now) const {
  if (no_verdicts()) return nullptr;
  if (const auto found = of_events_.find(place_of(position)); found != of_events_.end()) return &found->second;
  const auto found = of_topics_.find(topic);
  return found != of_topics_.end() && now < found->second.until ? &found->second.verdict : nullptr;
}

void DeadLetters::judge_topic(const DeliveryFailure& failure, TimePoint now) {
  std::erase_if(of_topics_, [now](const auto& each) { return each.second.until <= now; });
  if (of_topics_.size() >= most_topics) return;
  of_topics_[failure.topic] = {.verdict = {.failure_class = failure.failure_class,
                                           .reason = failure.reason,
                                           .topic = failure.topic,
                                           .attempts = 0,
                                           .as_pointer = false},
                               .until = now + topic_verdict_time};
}

bool DeadLetters::judge(const DeliveryFailure& failure, const EventPosition& position, TimePoint now) {
  const auto place = place_of(position);
  const auto known = of_events_.find(place);
  const bool letter = is_letter(failure.ticket) || failure.topic == topic();
  if (letter) {
    const bool too_large = failure.failure_class == FailureClass::too_large;
    if (!too_large || (known != of_events_.end() && known->second.as_pointer)) return false;
    auto& verdict = of_events_[place];
    if (known == of_events_.end()) {
      // Its topic was under a verdict, or its row could not be mapped: only its size is remembered, and the class.
      const auto out = out_.find(to_number(failure.ticket));
      verdict.failure_class = out != out_.end() ? out->second.failure_class : failure.failure_class;
      verdict.reason = failure.reason;
    }
    verdict.as_pointer = true;
    return true;
  }
  if (!takes(failure.failure_class)) return false;
  if (concerns_whole_topic(failure.failure_class)) judge_topic(failure, now);
  auto& verdict = of_events_[place];
  verdict.failure_class = failure.failure_class;
  verdict.reason = failure.reason;
  verdict.topic = failure.topic;
  ++verdict.attempts;
  return true;
}

const Record& DeadLetters::letter(const Record* record, const OutboxEvent& event, const EventPosition& position,
                                  const Verdict& verdict, std::int64_t timestamp_ms) {
  commit_lsn_ = to_string(position.commit_lsn);
  ordinal_ = std::to_string(position.ordinal);
  attempts_ = std::to_string(verdict.attempts);
  source_table_ = event.table->name();
  reason_ = verdict.reason;
  topic_ = record != nullptr ? std::string(record->topic) : verdict.topic;

  letter_.topic = delivery_.dead_letter_topic;
  letter_.partition.reset();  // That of another topic means nothing there.
  letter_.timestamp_ms = timestamp_ms;
  letter_.headers.clear();
  if (record != nullptr) {
    letter_.key = record->key;
    letter_.value = record->value;
    letter_.headers = record->headers;
  } else {
    letter_.key = part(event, "aggregate_id");
    letter_.value = part(event, "payload");
    for (const std::string_view name : {"id", "aggregate_type", "event_type"}) {
      if (const auto text = part(event, name)) letter_.headers.push_back({.name = name, .value = *text});
    }
  }
  letter_.headers.push_back({"outbox-relay-reason", reason_});
  letter_.headers.push_back({"outbox-relay-class", to_string(verdict.failure_class)});
  letter_.headers.push_back({"outbox-relay-source-table", source_table_});
  letter_.headers.push_back({"outbox-relay-commit-lsn", commit_lsn_});
  letter_.headers.push_back({"outbox-relay-ordinal", ordinal_});
  letter_.headers.push_back({"outbox-relay-attempts", attempts_});
  letter_.headers.push_back({"outbox-relay-original-topic", topic_});
  if (!verdict.as_pointer) return letter_;

  letter_.value.reset();
  letter_.headers.push_back({"outbox-relay-pointer", "true"});
  // The row is found by its id, whatever headers the route has.
  if (const auto id = part(event, "id")) letter_.headers.push_back({"outbox-relay-event-id", *id});
  return letter_;
}

void DeadLetters::sent(Ticket ticket, const EventPosition& position, FailureClass failure_class) {
  out_[to_number(ticket)] = {.place = place_of(position), .failure_class = failure_class};
}

std::optional<FailureClass> DeadLetters::delivered(Ticket ticket) {
  if (out_.empty()) return std::nullopt;
  const auto found = out_.find(to_number(ticket));
  if (found == out_.end()) return std::nullopt;
  const auto failure_class = found->second.failure_class;
  of_events_.erase(found->second.place);
  out_.erase(found);
  return failure_class;
}

}  // namespace outbox
