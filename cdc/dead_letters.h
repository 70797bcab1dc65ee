// What becomes of records that can never be delivered as they are: policies, verdicts, and the dead letters themselves.
//
// A record that the sink has refused is gone from memory by then: what is remembered is a verdict on the place of its
// event in the log, and when the event comes by again its dead letter is sent instead. Where the next record of the
// same topic would fail alike, the verdict covers the topic for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cdc/in_flight_window.h"
#include "cdc/outbox_decoder.h"
#include "cdc/status_schedule.h"
#include "config/config.h"
#include "sinks/record.h"

namespace outbox {

// Why an event is a dead letter.
struct Verdict {
  FailureClass failure_class = FailureClass::other;
  std::string reason;
  std::string topic;           // Where it was to go; empty where not even that is known.
  std::uint32_t attempts = 0;  // How often this very record was refused.
  bool as_pointer = false;     // Its value is too large for the dead-letter topic as well.
};

class DeadLetters {
 public:
  // How long a verdict on a topic holds: after it the topic is tried again.
  static constexpr std::chrono::seconds topic_verdict_time{60};

  explicit DeadLetters(DeliveryConfig delivery) : delivery_(std::move(delivery)) {}

  const std::string& topic() const { return delivery_.dead_letter_topic; }
  bool takes(FailureClass failure_class) const;

  // A new stream: no letter is out any more. Verdicts stay: a transaction of another history differs in its commit.
  void restart() { out_.clear(); }

  // Everything up to a transaction's commit is delivered.
  void passed(Lsn commit_lsn);

  // The verdict on the event at `position`, or on the topic; null where its record is to be sent.
  const Verdict* verdict_on(const EventPosition& position, std::string_view topic, TimePoint now) const;
  bool no_verdicts() const { return of_events_.empty() && of_topics_.empty(); }

  // A record that the sink refused, now or later. False where the policy is to halt, as for every refusal of a dead
  // letter but the one for its size, which makes it a pointer.
  bool judge(const DeliveryFailure& failure, const EventPosition& position, TimePoint now);

  // The dead letter of an event: the record that was to be sent, or what can be had of one that never came to be
  // (null). The views hold until the next call and as long as those of the event.
  const Record& letter(const Record* record, const OutboxEvent& event, const EventPosition& position,
                       const Verdict& verdict, std::int64_t timestamp_ms);

  // The letter made last went out with this ticket.
  void sent(Ticket ticket, const EventPosition& position, FailureClass failure_class);
  // What a delivered ticket was a letter for; nothing for an ordinary record.
  std::optional<FailureClass> delivered(Ticket ticket);
  // Whether a ticket that is out is one of a dead letter.
  bool is_letter(Ticket ticket) const { return out_.count(to_number(ticket)) != 0; }

 private:
  struct Place {
    Lsn commit_lsn;
    std::uint32_t xid;
    WallTime commit_time;
    std::uint64_t ordinal;
    auto operator<=>(const Place&) const = default;
  };
  struct Out {
    Place place;
    FailureClass failure_class;
  };
  struct TopicVerdict {
    Verdict verdict;
    TimePoint until;
  };
  // Of distinct topics; beyond it, verdicts are on single events.
  static constexpr std::size_t most_topics = 1000;

  static Place place_of(const EventPosition& position) {
    return {position.commit_lsn, position.xid, position.commit_time, position.ordinal};
  }
  void judge_topic(const DeliveryFailure& failure, TimePoint now);

  DeliveryConfig delivery_;
  // An entry leaves when its letter is delivered: at most one for each record that was out when one was refused.
  std::map<Place, Verdict> of_events_;
  std::map<std::string, TopicVerdict, std::less<>> of_topics_;
  std::unordered_map<std::uint64_t, Out> out_;  // By ticket.

  // The text of the letter at hand.
  Record letter_;
  std::string commit_lsn_;
  std::string ordinal_;
  std::string attempts_;
  std::string source_table_;
  std::string topic_;
  std::string reason_;
};

}  // namespace outbox
