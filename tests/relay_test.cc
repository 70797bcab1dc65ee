// Claims about the way of an event through the relay, and about what is confirmed of it.
#include "cdc/relay.h"

#include "tests/relay_fixture.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

TEST_F(RelayTest, SendsEachInsertOfATransactionInOrder) {
  begin(42);
  insert("order-7", "{}");
  insert("order-8", "[1]");
  commit_at("0/2A0");
  EXPECT_EQ(sent(), "orders[order-7]={}, orders[order-8]=[1]");
}

TEST_F(RelayTest, SendsBeforeTheCommitArrives) {
  begin(42);
  insert("order-7", "{}");
  EXPECT_EQ(sent(), "orders[order-7]={}");
}

TEST_F(RelayTest, ConfirmsTheEndOfATransactionOnceItIsAcknowledged) {
  transaction(42, {"order-7", "order-8"}, "0/2A0");
  EXPECT_EQ(flushed(), "0/100");
  sink.deliver();
  collect();
  EXPECT_EQ(flushed(), "0/100");
  sink.deliver();
  collect();
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayTest, NothingIsConfirmedBeyondATransactionThatWaits) {
  transaction(42, {"slow"}, "0/2A0");
  transaction(43, {"quick"}, "0/3A0");
  sink.deliver(1);
  collect();
  EXPECT_EQ(flushed(), "0/100");
  EXPECT_EQ(to_string(relay.take_status(now, false).flushed), "0/100");
}

TEST_F(RelayTest, AKeepaliveMovesThePositionOfAnIdleOutbox) {
  keepalive("0/5000");
  EXPECT_EQ(flushed(), "0/5000");
}

TEST_F(RelayTest, AKeepaliveConfirmsNothingWhileARecordIsOut) {
  transaction(42, {"order-7"}, "0/2A0");
  keepalive("0/5000");
  EXPECT_EQ(flushed(), "0/100");
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayTest, AKeepaliveInTheMiddleOfATransactionConfirmsNothing) {
  begin(42);
  insert("order-7", "{}");
  deliver_all();
  keepalive("0/5000");
  EXPECT_EQ(flushed(), "0/100");
}

TEST_F(RelayTest, MessagesThatCarryNoEventMoveNothing) {
  begin(42);
  for (const auto& message : wire::without_event()) receive(message);
  commit_at("0/2A0");
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayTest, AFullSinkKeepsOneRecordBackAndStopsInput) {
  sink.room = 1;
  begin(42);
  insert("order-7", "{}");
  EXPECT_TRUE(relay.wants_input());
  insert("order-8", "[]");
  EXPECT_FALSE(relay.wants_input());
  collect();
  EXPECT_FALSE(relay.wants_input());
  EXPECT_FALSE(relay.drained());
  EXPECT_EQ(sent(), "orders[order-7]={}");
}

TEST_F(RelayTest, TheRecordThatWasHeldBackGoesOutOnceAndUnchanged) {
  sink.room = 1;
  begin(42);
  insert("order-7", "{}");
  insert("order-8", "[]");
  deliver_all();
  EXPECT_TRUE(relay.wants_input());
  EXPECT_EQ(sent(), "orders[order-7]={}, orders[order-8]=[]");
  commit_at("0/2A0");
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
  EXPECT_EQ(sent(), "orders[order-7]={}, orders[order-8]=[]");
}

TEST_F(RelayTest, StatusUpdatesGoOnWhileTheSinkIsFull) {
  sink.room = 0;
  begin(42);
  insert("order-7", "{}");
  ASSERT_FALSE(relay.wants_input());
  relay.take_status(now, false);
  pass(milliseconds(10000));
  EXPECT_LE(relay.status_due_at(), now.steady);
}

TEST_F(RelayTest, AFullWindowStopsInputUntilItsOldestRecordIsAcknowledged) {
  begin(42);
  for (std::size_t count = 0; count < max_in_flight; ++count) insert("order-7", "{}");
  EXPECT_FALSE(relay.wants_input());
  sink.deliver(1);
  collect();
  EXPECT_FALSE(relay.wants_input());
  sink.deliver(0);
  collect();
  EXPECT_TRUE(relay.wants_input());
}

TEST_F(RelayTest, ATransactionLargerThanTheWindowPassesThrough) {
  begin(42);
  for (int count = 0; count < 100; ++count) {
    insert("order-7", std::to_string(count));
    if (!relay.wants_input()) deliver_all();
  }
  commit_at("0/2A0");
  deliver_all();
  EXPECT_EQ(sink.sent.size(), 100u);
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayTest, TellsTheServerWhatHasArrivedAndConfirmsOnlyWhatIsDelivered) {
  transaction(42, {"order-7"}, "0/2A0");
  const auto update = relay.take_status(now, true);
  EXPECT_EQ(to_string(update.written), "0/2A0");
  EXPECT_EQ(to_string(update.flushed), "0/100");
  EXPECT_EQ(update.applied, update.flushed);
  EXPECT_TRUE(update.reply_requested);
}

TEST_F(RelayTest, AKeepaliveThatAsksIsAnsweredSoon) {
  relay.take_status(now, false);
  keepalive("0/100", true);
  EXPECT_EQ(relay.status_due_at(), now.steady + milliseconds(100));
}

TEST_F(RelayTest, AConfirmationGoesOutSoonOnceTheWindowHasDrained) {
  relay.take_status(now, false);
  transaction(42, {"order-7"}, "0/2A0");
  transaction(43, {"order-8"}, "0/3A0");
  EXPECT_EQ(relay.status_due_at(), now.steady + milliseconds(10000));
  sink.deliver();
  collect();
  EXPECT_EQ(relay.status_due_at(), now.steady + milliseconds(1000));
  deliver_all();
  EXPECT_EQ(relay.status_due_at(), now.steady + milliseconds(100));
}

TEST_F(RelayTest, TheOldestUnacknowledgedRecordHasAnAge) {
  transaction(42, {"order-7"}, "0/2A0");
  pass(milliseconds(5000));
  EXPECT_EQ(relay.oldest_unacked_age(now), milliseconds(5000));
  deliver_all();
  EXPECT_EQ(relay.oldest_unacked_age(now), milliseconds(0));
}

TEST_F(RelayTest, ObservesTheTimeFromCommitToAcknowledgementPerEvent) {
  transaction(42, {"order-7", "order-8"}, "0/2A0");
  pass(milliseconds(2000));
  deliver_all();
  const auto ages = relay.take_ages();
  EXPECT_DOUBLE_EQ(ages.sum, 2 * 2.0);
  EXPECT_EQ(relay.take_ages().sum, 0);
}

TEST_F(RelayTest, CarriesTheCommitTimeInMilliseconds) {
  class TimeSink final : public Sink {
   public:
    SendResult send(const Record& record, Ticket) override {
      timestamp_ms = record.timestamp_ms;
      return SendResult::accepted;
    }
    void collect(DeliveryReports&) override {}
    int event_fd() const override { return -1; }
    std::int64_t timestamp_ms = 0;
  } times;
  relay.start_stream(times, {.position = lsn("0/100"), .same_history = false, .catalog = {}}, now);
  begin(42);
  insert("order-7", "{}");
  EXPECT_EQ(times.timestamp_ms, 1767323045000);
}

}  // namespace
}  // namespace outbox
