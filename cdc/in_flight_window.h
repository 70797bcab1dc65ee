// The transactions handed to the sink and not yet wholly delivered, oldest first.
//
// One list answers what may be confirmed to PostgreSQL, whether the relay may read more, and whether it is idle.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cdc/lsn.h"
#include "cdc/replication_protocol.h"
#include "cdc/resume.h"
#include "sinks/record.h"

namespace outbox {

// The identity of an event in the log. The ordinal counts every insert of its transaction, from zero.
struct EventPosition {
  Lsn commit_lsn;
  std::uint32_t xid = 0;
  WallTime commit_time = {};
  std::uint64_t ordinal = 0;
};

// A transaction that has left the window: everything up to its end_lsn is delivered.
struct DeliveredTransaction {
  Lsn commit_lsn;
  Lsn end_lsn;
  std::uint32_t xid = 0;
  WallTime commit_time;
  std::uint64_t records = 0;  // Zero where it only moves the position.
};

// Every ticket is either delivered, once, or still out. Deliveries arrive in any order. Misuse is broken code and
// aborts. All calls are amortised O(1), except describe().
class InFlightWindow {
 public:
  // At most `max_records` tickets lie between the oldest that is out and the next to be given: this bounds what a
  // crash repeats, and the memory (a bit a ticket).
  explicit InFlightWindow(std::size_t max_records);

  // A new stream begins at `start`. With `same_history` what an earlier stream of this process delivered beyond
  // its flushed position is remembered and found again by delivered_before(); otherwise it is forgotten.
  void restart(Lsn start, bool same_history);

  void open(Lsn commit_lsn, std::uint32_t xid, WallTime commit_time);
  bool in_transaction() const { return in_transaction_; }

  // Whether an earlier stream delivered what has not come by again yet.
  bool remembers_ahead() const { return !remembered_.empty(); }

  // Whether the next record of the open transaction was delivered in an earlier stream of the same history. The
  // caller then takes its ticket with record_skipped() and sends nothing.
  bool delivered_before() const;
  Ticket next_ticket() const { return Ticket{next_ticket_}; }
  Ticket record_sent();  // Takes next_ticket().
  void record_skipped();
  void record_delivered(Ticket ticket);

  // `end_lsn` is one past the commit record. Confirming the commit record's own position instead would make the
  // server send this transaction again after a restart.
  void committed(Lsn end_lsn);

  // The oldest transaction, once it is closed and delivered; moves flushed_lsn. Nothing where none is.
  std::optional<DeliveredTransaction> pop_delivered();

  // A keepalive: everything before `wal_end` has been sent to us already. Moves flushed_lsn only when idle.
  void received_up_to(Lsn wal_end);

  // All that may be confirmed: the end of the longest delivered prefix.
  Lsn flushed_lsn() const { return flushed_; }

  // How far it will have come once everything that is out is delivered; `last` is empty where no transaction is here.
  Progress when_delivered() const;

  // Nothing is out and no transaction is open.
  bool idle() const { return !in_transaction_ && transactions_.empty(); }
  // Something was sent that lies beyond flushed_lsn: another process, which knows the slot alone, sends it again.
  bool sent_beyond_flushed() const;
  bool full() const { return next_ticket_ - oldest_out_ >= max_records_; }
  std::uint64_t records_out() const { return out_; }
  // Every ticket below oldest_out() is delivered; every ticket below end() has been given.
  std::uint64_t oldest_out() const { return oldest_out_; }
  std::uint64_t end() const { return next_ticket_; }
  std::size_t transactions() const { return transactions_.size(); }

  // Where the record of a ticket that is out stands in the log.
  EventPosition describe(Ticket ticket) const;
  // The same for the record that the open transaction would send next.
  EventPosition next_position() const;

 private:
  struct Transaction {
    Lsn commit_lsn;
    Lsn end_lsn;
    std::uint32_t xid;
    WallTime commit_time;
    std::uint64_t first_ticket;
  };

  // What an earlier stream knew of a transaction: which of its records were delivered.
  struct Remembered {
    Lsn commit_lsn;
    std::uint32_t xid;
    WallTime commit_time;
    std::uint64_t delivered_prefix;      // All ordinals below this.
    std::vector<bool> delivered_beyond;  // Ordinals from delivered_prefix on.

    std::uint64_t end() const { return delivered_prefix + delivered_beyond.size(); }  // Nothing is known from here on.
    bool delivered(std::uint64_t ordinal) const {
      return ordinal < delivered_prefix || (ordinal < end() && delivered_beyond[ordinal - delivered_prefix]);
    }
  };

  bool delivered(std::uint64_t ticket) const { return delivered_bits_[ticket % max_records_]; }
  std::uint64_t take_ticket();
  void mark_delivered(std::uint64_t ticket);
  void remember();
  std::uint64_t end_of(std::size_t index) const;

  std::size_t max_records_;
  std::deque<Transaction> transactions_;  // The last one is the open one, if any.
  bool in_transaction_ = false;
  std::vector<bool> delivered_bits_;  // Of the tickets in [oldest_out_, next_ticket_), by ticket % max_records_.
  std::uint64_t oldest_out_ = 0;      // Every ticket below is delivered.
  std::uint64_t next_ticket_ = 0;
  std::uint64_t out_ = 0;
  Lsn flushed_;
  std::deque<Remembered> remembered_;            // In commit order.
  const Remembered* open_remembered_ = nullptr;  // Of the open transaction; an element of remembered_.
};

}  // namespace outbox
