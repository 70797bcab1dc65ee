// From the frames of one replication stream to records in a sink, and from delivery reports to the position that
// may be confirmed.
//
// No I/O and no clock: bytes and time come in as arguments, which is what the simulation drives. The way of one
// event is receive() -> on_insert() -> Router::route() -> Sink::send(), and back through collect().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cdc/age_histogram.h"
#include "cdc/dead_letters.h"
#include "cdc/in_flight_bytes.h"
#include "cdc/in_flight_window.h"
#include "cdc/outbox_decoder.h"
#include "cdc/pgoutput.h"
#include "cdc/replication_protocol.h"
#include "cdc/resume.h"
#include "cdc/router.h"
#include "cdc/send_times.h"
#include "cdc/status_schedule.h"
#include "sinks/sink.h"

namespace outbox {

// The two clocks: one for waiting, which never jumps, and one for dates.
struct Now {
  TimePoint steady;
  WallTime wall;
};

// Running totals of one process.
struct RelayCounts {
  std::uint64_t received_bytes = 0;
  std::uint64_t begins = 0;
  std::uint64_t inserts = 0;
  std::uint64_t commits = 0;
  std::uint64_t relations = 0;
  std::uint64_t skipped_messages = 0;
  std::uint64_t keepalives = 0;
  std::uint64_t transactions_delivered = 0;
  std::uint64_t records_delivered = 0;
  std::uint64_t records_suppressed = 0;  // Delivered by an earlier stream of this process, not sent again.
  std::array<std::uint64_t, failure_class_names.size()> records_failed{};  // By FailureClass.
  std::array<std::uint64_t, failure_class_names.size()> dead_lettered{};   // Acknowledged there, likewise.
  // Status updates, by why they went out.
  std::uint64_t confirmations_progress = 0;
  std::uint64_t confirmations_requested = 0;
  std::uint64_t confirmations_keepalive = 0;
};

// What a stream begins with.
struct StreamStart {
  Lsn position;               // From where the server sends.
  bool same_history = false;  // The server, timeline and slot are those of the stream before, as far as it shows.
  // What lies before it is not sent again.
  std::optional<ResumePoint> resume = {};
  // Where the sink keeps a checkpoint and that one decides: what to make of its text, in place of `resume`. Nothing is
  // read before.
  std::function<Resumption(const std::string& text)> judge_checkpoint = {};
  RelationMap catalog;
  std::chrono::milliseconds status_interval{10000};
};

class Relay {
 public:
  // At most `max_in_flight` records lie between the oldest unacknowledged and the newest, and nothing is read while
  // `budget_bytes` are held. Keeps a reference: `outbox` outlives the relay.
  Relay(const std::vector<OutboxConfig>& outbox, std::size_t max_in_flight, DeliveryConfig delivery = {},
        std::uint64_t budget_bytes = std::numeric_limits<std::uint64_t>::max());

  // A new stream into `sink`, which outlives it. Whatever is out in an older sink must have been given up: its
  // reports never arrive here.
  void start_stream(Sink& sink, const StreamStart& start, Now now);

  // False while the sink, the window or the budget is full: stop reading, go on collecting and sending status updates.
  bool wants_input() const {
    return blocked_insert_.empty() && !window_.full() && bytes_.total() < budget_bytes_ && !awaits_checkpoint();
  }

  // The stored checkpoint is not known yet.
  bool awaits_checkpoint() const { return judge_checkpoint_ != nullptr; }

  // One CopyData message. Call only while wants_input(). Throws ProtocolError, HistoryChanged, HaltError and
  // SinkBroken.
  void receive(std::string_view copy_data, Now now);

  // Takes the sink's reports and sends the record that was held back. For records that the sink refuses for good
  // throws HaltError, or DeadLetterDue where the policy for all of them is the dead-letter topic; and SinkBroken.
  void collect(Now now);

  // The same when the stream is over: keeps what was delivered, sends nothing, ignores refusals.
  void settle(Now now);

  TimePoint status_due_at() const { return schedule_.due(confirmable_lsn(), window_.idle()); }

  // The update to send now; counts as sent. `reply_requested` asks the server for a sign of life.
  StandbyStatusUpdate take_status(Now now, bool reply_requested);

  Lsn flushed_lsn() const { return window_.flushed_lsn(); }
  // What of it may be confirmed: nothing before the history has shown itself the same, and no more than a checkpoint
  // says, where there is one.
  Lsn confirmable_lsn() const;

  // Asks the sink for a checkpoint where one is due: at most one a second, or `at_once`.
  void write_checkpoint(Now now, bool at_once);
  // When it next has to be asked.
  TimePoint checkpoint_due_at() const;
  // Nothing is flushed that the checkpoint does not say.
  bool checkpoint_current() const;
  // What the sink's next checkpoint is to say; it counts as durable once the sink reports a checkpoint written.
  // `with_sent`: everything sent becomes durable together with it.
  Progress next_checkpoint(bool with_sent);
  // The highest position confirmed to the server in this stream.
  Lsn confirmed_lsn() const { return schedule_.confirmed(); }
  Lsn received_lsn() const { return received_; }
  bool in_transaction() const { return window_.in_transaction(); }
  // Whether a process that stopped reading here would leave acknowledged records that cannot be confirmed.
  bool stopping_repeats() const { return window_.in_transaction() || window_.remembers_ahead() || resume_.has_value(); }
  // Every record that was sent has been reported, delivered or refused.
  bool all_reported() const { return window_.records_out() == refused_; }
  // And none is held back.
  bool drained() const { return blocked_insert_.empty() && all_reported(); }
  // A record has been refused for good: nothing behind it may leave the sink.
  bool refused() const { return refused_ > 0 || refused_at_once_; }
  std::uint64_t held_bytes() const { return bytes_.total() + blocked_insert_.size(); }
  std::uint64_t budget_bytes() const { return budget_bytes_; }
  bool idle() const { return window_.idle(); }
  bool sent_beyond_flushed() const { return window_.sent_beyond_flushed(); }
  // The latest one with records that has left the window, of this history.
  const std::optional<DeliveredTransaction>& last_delivered() const { return last_delivered_; }
  std::uint64_t records_in_flight() const { return window_.records_out(); }
  std::size_t transactions_in_flight() const { return window_.transactions(); }
  std::chrono::steady_clock::duration oldest_unacked_age(Now now);

  const RelayCounts& counts() const { return counts_; }
  std::uint64_t null_keys() const { return router_.counts().null_keys; }
  // What has been gathered since the last call.
  AgeHistogram take_ages() { return std::exchange(ages_, {}); }

 private:
  void on_message(std::string_view message, Now now);
  void on_begin(const pgoutput::Begin& begin);
  void on_commit(const pgoutput::Commit& commit);
  OutboxEvent decode(const pgoutput::Insert& insert) const;
  void on_insert(const pgoutput::Insert& insert, std::string_view message, Now now);
  void send(const Record& record, const OutboxEvent& event, std::string_view message, Now now);
  void send_letter(const Record* record, const OutboxEvent& event, Verdict verdict, std::string_view message, Now now);
  bool accepted(const Record& record, std::string_view message, Now now);
  void take_reports(Now now);
  void judge(const std::vector<DeliveryFailure>& failures, Now now);
  void count_status(StatusSchedule::Reason reason);
  void take_stored_checkpoint();
  void passing(Lsn position);
  bool delivered_before() const;
  void advance_flushed(Now now);
  [[noreturn]] void halt_on(const OutboxEvent& event, const std::string& problem) const;
  [[noreturn]] void halt_on(const OutboxEvent& event, const DeliveryFailure& failure);
  std::int64_t commit_ms() const;

  pgoutput::Decoder pgoutput_;
  OutboxDecoder decoder_;
  Router router_;
  InFlightWindow window_;
  InFlightBytes bytes_;
  DeadLetters dead_letters_;
  std::uint64_t budget_bytes_;
  StatusSchedule schedule_;
  SendTimes send_times_;
  Sink* sink_ = nullptr;
  Lsn received_;
  Lsn last_end_;                       // Of the last Commit of this stream: no later one lies below it.
  pgoutput::Begin begin_;              // Of the open transaction.
  std::optional<ResumePoint> resume_;  // Until the stream has come there.
  std::optional<DeliveredTransaction> last_delivered_;
  std::function<Resumption(const std::string&)> judge_checkpoint_;  // Until the sink has reported the stored one.
  Lsn checkpointed_;                                                // What the durable checkpoint says.
  std::optional<Lsn> checkpoint_under_way_;
  TimePoint checkpoint_asked_;
  std::string blocked_insert_;  // The one message that the full sink did not take; empty for none.
  std::uint64_t refused_ = 0;   // Records of this stream that were sent and then refused or given up by the sink.
  bool refused_at_once_ = false;
  std::string halt_;         // What the first refusal says whose policy is to halt; empty for none.
  std::string letter_due_;   // The same of the first one that is to become a dead letter.
  DeliveryReports reports_;  // Reused.
  AgeHistogram ages_;
  RelayCounts counts_;
};

}  // namespace outbox
