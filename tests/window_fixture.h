// An in-flight window that stands at 0/100, and the words to fill it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cdc/in_flight_window.h"
#include "tests/wire.h"

namespace outbox {

class InFlightWindowTest : public testing::Test {
 protected:
  static constexpr std::size_t max_records = 8;

  InFlightWindowTest() { window.restart(lsn("0/100"), false); }

  // The transaction whose commit record ends at `end`.
  void open(const std::string& end) { window.open(Lsn{lsn(end).value - 8}, 7, wire::noon); }
  Ticket record() { return window.record_sent(); }
  void deliver(Ticket ticket) { window.record_delivered(ticket); }

  std::vector<Ticket> transaction(const std::string& end, int records) {
    std::vector<Ticket> tickets;
    open(end);
    for (int count = 0; count < records; ++count) tickets.push_back(record());
    window.committed(lsn(end));
    return tickets;
  }

  std::string flushed() {
    while (window.pop_delivered()) {
    }
    return to_string(window.flushed_lsn());
  }

  void restart(const std::string& start, bool same_history) {
    while (window.pop_delivered()) {
    }
    window.restart(lsn(start), same_history);
  }

  // A transaction as the server sends it again: per record, s: sent, or d: delivered before and passed over.
  std::string resend(const std::string& end, int records, bool commit = true) {
    open(end);
    std::string seen;
    for (int count = 0; count < records; ++count) {
      const bool before = window.delivered_before();
      seen += before ? 'd' : 's';
      if (before) {
        window.record_skipped();
      } else {
        record();
      }
    }
    if (commit) window.committed(lsn(end));
    return seen;
  }

  InFlightWindow window{max_records};
};

}  // namespace outbox
