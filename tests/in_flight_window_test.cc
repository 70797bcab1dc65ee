// Claims about what may be confirmed while transactions are in flight.
#include "cdc/in_flight_window.h"

#include <gtest/gtest.h>

#include "tests/window_fixture.h"

namespace outbox {
namespace {

TEST_F(InFlightWindowTest, HoldsBackTheWatermarkUntilOlderTransactionsAreDelivered) {
  const auto first = transaction("0/200", 1);
  const auto second = transaction("0/300", 1);
  deliver(second[0]);
  EXPECT_EQ(flushed(), "0/100");
  deliver(first[0]);
  EXPECT_EQ(flushed(), "0/300");
}

TEST_F(InFlightWindowTest, ATransactionCountsOnceItsLastRecordIsDelivered) {
  const auto records = transaction("0/200", 3);
  deliver(records[2]);
  deliver(records[0]);
  EXPECT_EQ(flushed(), "0/100");
  deliver(records[1]);
  EXPECT_EQ(flushed(), "0/200");
}

TEST_F(InFlightWindowTest, AnOpenTransactionIsNeverConfirmedHoweverMuchOfItIsDelivered) {
  open("0/200");
  deliver(record());
  deliver(record());
  EXPECT_EQ(flushed(), "0/100");
  window.committed(lsn("0/200"));
  EXPECT_EQ(flushed(), "0/200");
}

TEST_F(InFlightWindowTest, ConfirmsTheEndOfACommitNotItsBeginning) {
  window.open(lsn("0/1F0"), 7, wire::noon);
  deliver(record());
  window.committed(lsn("0/220"));
  EXPECT_EQ(flushed(), "0/220");
}

TEST_F(InFlightWindowTest, PopsEachTransactionOnceAndInOrder) {
  const auto first = transaction("0/200", 2);
  const auto second = transaction("0/300", 1);
  for (const auto ticket : {second[0], first[0], first[1]}) window.record_delivered(ticket);
  const auto oldest = window.pop_delivered();
  ASSERT_TRUE(oldest);
  EXPECT_EQ(oldest->end_lsn, lsn("0/200"));
  EXPECT_EQ(oldest->records, 2u);
  EXPECT_EQ(window.pop_delivered()->end_lsn, lsn("0/300"));
  EXPECT_FALSE(window.pop_delivered());
}

TEST_F(InFlightWindowTest, AnEmptyTransactionMovesThePositionOfAnIdleWindow) {
  transaction("0/200", 0);
  EXPECT_EQ(flushed(), "0/200");
}

TEST_F(InFlightWindowTest, EmptyTransactionsBehindAStalledOneCostNoMemory) {
  const auto stalled = transaction("0/200", 1);
  for (std::uint64_t end = 0x300; end < 0x10000; end += 0x100) transaction(to_string(Lsn{end}), 0);
  EXPECT_EQ(window.transactions(), 1u);
  EXPECT_EQ(flushed(), "0/100");
  deliver(stalled[0]);
  EXPECT_EQ(flushed(), "0/FF00");
}

TEST_F(InFlightWindowTest, AKeepaliveMovesThePositionOnlyWhenNothingIsOut) {
  window.received_up_to(lsn("0/150"));
  EXPECT_EQ(flushed(), "0/150");
  open("0/200");
  window.received_up_to(lsn("0/180"));
  EXPECT_EQ(flushed(), "0/150");
  const auto ticket = record();
  window.committed(lsn("0/200"));
  window.received_up_to(lsn("0/280"));
  EXPECT_EQ(flushed(), "0/150");
  deliver(ticket);
  EXPECT_EQ(flushed(), "0/200");
  window.received_up_to(lsn("0/280"));
  EXPECT_EQ(flushed(), "0/280");
}

TEST_F(InFlightWindowTest, AKeepaliveNeverMovesThePositionBack) {
  window.received_up_to(lsn("0/200"));
  window.received_up_to(lsn("0/180"));
  EXPECT_EQ(flushed(), "0/200");
}

TEST_F(InFlightWindowTest, IsFullWhenTheOldestRecordLiesItsBoundBehind) {
  open("0/200");
  const auto oldest = record();
  for (std::size_t more = 1; more < max_records; ++more) {
    EXPECT_FALSE(window.full());
    deliver(record());  // Delivered, yet behind the oldest that is out.
    if (more + 1 < max_records) continue;
    EXPECT_TRUE(window.full());
  }
  EXPECT_EQ(window.records_out(), 1u);
  deliver(oldest);
  EXPECT_FALSE(window.full());
  EXPECT_EQ(window.records_out(), 0u);
}

TEST_F(InFlightWindowTest, IsIdleOnlyWithNothingOpenAndNothingOut) {
  EXPECT_TRUE(window.idle());
  open("0/200");
  EXPECT_FALSE(window.idle());
  const auto ticket = record();
  window.committed(lsn("0/200"));
  EXPECT_FALSE(window.idle());
  deliver(ticket);
  window.pop_delivered();
  EXPECT_TRUE(window.idle());
}

TEST_F(InFlightWindowTest, DescribesWhereARecordThatIsOutStandsInTheLog) {
  window.open(lsn("0/1F0"), 41, wire::noon);
  record();
  window.committed(lsn("0/200"));
  window.open(lsn("0/2F0"), 42, wire::noon);
  record();
  EXPECT_EQ(window.next_position().ordinal, 1u);
  const auto position = window.describe(record());
  EXPECT_EQ(position.commit_lsn, lsn("0/2F0"));
  EXPECT_EQ(position.xid, 42u);
  EXPECT_EQ(position.ordinal, 1u);
  EXPECT_EQ(window.next_position().ordinal, 2u);
}

TEST_F(InFlightWindowTest, TicketsAreConsecutiveAndNeverReused) {
  open("0/200");
  const auto first = record();
  EXPECT_EQ(to_number(window.next_ticket()), to_number(first) + 1);
  restart("0/100", true);
  open("0/200");
  EXPECT_GT(to_number(record()), to_number(first));
}

using InFlightWindowDeathTest = InFlightWindowTest;

TEST_F(InFlightWindowDeathTest, BrokenInvariantsEndTheProcess) {
  EXPECT_DEATH(InFlightWindow(0), "at least one record");
  EXPECT_DEATH(record(), "a record outside a transaction");
  EXPECT_DEATH(window.committed(lsn("0/200")), "a commit without a transaction");
  EXPECT_DEATH(window.next_position(), "a position outside a transaction");
  EXPECT_DEATH(window.record_delivered(Ticket{0}), "not out");
  open("0/200");
  EXPECT_DEATH(open("0/300"), "opens inside another");
  EXPECT_DEATH(window.committed(window.next_position().commit_lsn), "ends before its commit");
  const auto first = record();
  const auto second = record();
  EXPECT_DEATH(window.record_delivered(window.next_ticket()), "not out");
  window.record_delivered(second);
  EXPECT_DEATH(window.record_delivered(second), "delivered twice");
  window.record_delivered(first);
  EXPECT_DEATH(window.record_delivered(first), "not out");
  EXPECT_DEATH(window.describe(first), "no position");
}

TEST_F(InFlightWindowDeathTest, ARecordBeyondTheBoundEndsTheProcess) {
  open("0/200");
  for (std::size_t count = 0; count < max_records; ++count) record();
  EXPECT_DEATH(record(), "beyond the window's bound");
}

}  // namespace
}  // namespace outbox
