#include "cdc/in_flight_window.h"

#include <algorithm>

#include "cdc/check.h"

namespace outbox {

InFlightWindow::InFlightWindow(std::size_t max_records) : max_records_(max_records), delivered_bits_(max_records) {
  CHECK(max_records > 0, "a window holds at least one record");
}

std::uint64_t InFlightWindow::end_of(std::size_t index) const {
  return index + 1 < transactions_.size() ? transactions_[index + 1].first_ticket : next_ticket_;
}

// Keeps, of every transaction that the server will send again, which records were delivered.
void InFlightWindow::remember() {
  std::deque<Remembered> kept;
  for (std::size_t index = 0; index < transactions_.size(); ++index) {
    const auto first = transactions_[index].first_ticket;
    const auto end = end_of(index);
    const auto known = std::clamp(oldest_out_, first, end);
    Remembered entry{.commit_lsn = transactions_[index].commit_lsn,
                     .xid = transactions_[index].xid,
                     .commit_time = transactions_[index].commit_time,
                     .delivered_prefix = known - first,
                     .delivered_beyond = {}};
    for (auto ticket = known; ticket < end; ++ticket) {
      entry.delivered_beyond.push_back(delivered(ticket));
    }
    kept.push_back(std::move(entry));
  }
  // A stream that broke off before it came to what an older one knew still leaves that to be found. The next
  // transaction may commit at the very position where the last one ends.
  const bool none_seen = kept.empty();
  const auto last = none_seen ? flushed_ : kept.back().commit_lsn;
  for (auto& older : remembered_) {
    const bool ahead = none_seen ? older.commit_lsn >= last : older.commit_lsn > last;
    if (ahead) {
      kept.push_back(std::move(older));
    } else if (in_transaction_ && older.commit_lsn == last) {
      auto& open = kept.back();
      for (auto ordinal = open.end(); ordinal < older.end(); ++ordinal) {
        open.delivered_beyond.push_back(older.delivered(ordinal));
      }
    }
  }
  remembered_ = std::move(kept);
}

void InFlightWindow::restart(Lsn start, bool same_history) {
  if (same_history) {
    remember();
  } else {
    remembered_.clear();
  }
  open_remembered_ = nullptr;
  transactions_.clear();
  in_transaction_ = false;
  std::fill(delivered_bits_.begin(), delivered_bits_.end(), false);
  oldest_out_ = next_ticket_;
  out_ = 0;
  flushed_ = start;
}

void InFlightWindow::open(Lsn commit_lsn, std::uint32_t xid, WallTime commit_time) {
  CHECK(!in_transaction_, "a transaction opens inside another");
  while (!remembered_.empty() && remembered_.front().commit_lsn < commit_lsn) remembered_.pop_front();
  // A server with another history may have another transaction at the same position.
  const bool known = !remembered_.empty() && remembered_.front().commit_lsn == commit_lsn &&
                     remembered_.front().xid == xid && remembered_.front().commit_time == commit_time;
  open_remembered_ = known ? &remembered_.front() : nullptr;
  transactions_.push_back(
      {.commit_lsn = commit_lsn, .end_lsn = {}, .xid = xid, .commit_time = commit_time, .first_ticket = next_ticket_});
  in_transaction_ = true;
}

bool InFlightWindow::delivered_before() const {
  if (open_remembered_ == nullptr) return false;
  return open_remembered_->delivered(next_ticket_ - transactions_.back().first_ticket);
}

std::uint64_t InFlightWindow::take_ticket() {
  CHECK(in_transaction_, "a record outside a transaction");
  CHECK(!full(), "a record beyond the window's bound");
  ++out_;
  return next_ticket_++;
}

Ticket InFlightWindow::record_sent() { return Ticket{take_ticket()}; }

void InFlightWindow::record_skipped() { mark_delivered(take_ticket()); }

void InFlightWindow::record_delivered(Ticket ticket) { mark_delivered(to_number(ticket)); }

void InFlightWindow::mark_delivered(std::uint64_t ticket) {
  CHECK(ticket >= oldest_out_ && ticket < next_ticket_, "a delivery of a record that is not out");
  CHECK(!delivered(ticket), "a record delivered twice");
  delivered_bits_[ticket % max_records_] = true;
  --out_;
  while (oldest_out_ < next_ticket_ && delivered(oldest_out_)) {
    delivered_bits_[oldest_out_ % max_records_] = false;
    ++oldest_out_;
  }
}

void InFlightWindow::committed(Lsn end_lsn) {
  CHECK(in_transaction_, "a commit without a transaction");
  in_transaction_ = false;
  if (open_remembered_ != nullptr) remembered_.pop_front();  // All of it is known here again.
  open_remembered_ = nullptr;
  auto& transaction = transactions_.back();
  CHECK(end_lsn > transaction.commit_lsn, "a transaction that ends before its commit");
  transaction.end_lsn = end_lsn;
  // A server before 15 also sends transactions that the publication leaves empty. Folded into the one before, so
  // that the list does not grow while the sink is stalled.
  const bool empty = transaction.first_ticket == next_ticket_;
  if (empty && transactions_.size() > 1) {
    transactions_.pop_back();
    transactions_.back().end_lsn = end_lsn;
  }
}

std::optional<DeliveredTransaction> InFlightWindow::pop_delivered() {
  if (transactions_.empty()) return std::nullopt;
  const bool open = in_transaction_ && transactions_.size() == 1;
  const auto end = end_of(0);
  if (open || end > oldest_out_) return std::nullopt;
  const auto& oldest = transactions_.front();
  CHECK(oldest.end_lsn >= flushed_, "a transaction older than what is flushed");
  const DeliveredTransaction delivered{.commit_lsn = oldest.commit_lsn,
                                       .end_lsn = oldest.end_lsn,
                                       .xid = oldest.xid,
                                       .commit_time = oldest.commit_time,
                                       .records = end - oldest.first_ticket};
  flushed_ = oldest.end_lsn;
  transactions_.pop_front();
  return delivered;
}

Progress InFlightWindow::when_delivered() const {
  if (transactions_.empty()) return {.flushed = flushed_, .last = std::nullopt};
  const auto& last = transactions_.back();
  const auto before = transactions_.size() > 1 ? transactions_[transactions_.size() - 2].end_lsn : flushed_;
  const DeliveredPart part{.commit_lsn = last.commit_lsn,
                           .xid = last.xid,
                           .commit_time = last.commit_time,
                           .records = in_transaction_ ? next_ticket_ - last.first_ticket : DeliveredPart::all};
  return {.flushed = in_transaction_ ? before : last.end_lsn, .last = part};
}

void InFlightWindow::received_up_to(Lsn wal_end) {
  if (idle()) flushed_ = std::max(flushed_, wal_end);
}

bool InFlightWindow::sent_beyond_flushed() const {
  if (!transactions_.empty() && transactions_.front().first_ticket < next_ticket_) return true;
  return std::any_of(remembered_.begin(), remembered_.end(), [this](const Remembered& each) {
    const auto& beyond = each.delivered_beyond;
    const bool any = each.delivered_prefix > 0 || std::find(beyond.begin(), beyond.end(), true) != beyond.end();
    return any && each.commit_lsn >= flushed_;
  });
}

EventPosition InFlightWindow::describe(Ticket ticket) const {
  const auto number = to_number(ticket);
  CHECK(number >= oldest_out_ && number < next_ticket_, "a record that is not out has no position");
  const auto after =
      std::upper_bound(transactions_.begin(), transactions_.end(), number,
                       [](std::uint64_t value, const Transaction& each) { return value < each.first_ticket; });
  const auto& transaction = *std::prev(after);
  return {.commit_lsn = transaction.commit_lsn,
          .xid = transaction.xid,
          .commit_time = transaction.commit_time,
          .ordinal = number - transaction.first_ticket};
}

EventPosition InFlightWindow::next_position() const {
  CHECK(in_transaction_, "a position outside a transaction");
  const auto& open = transactions_.back();
  return {.commit_lsn = open.commit_lsn,
          .xid = open.xid,
          .commit_time = open.commit_time,
          .ordinal = next_ticket_ - open.first_ticket};
}

}  // namespace outbox
