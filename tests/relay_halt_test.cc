// Claims about what makes the relay halt or drop the stream, what it says then, and what it never confirms.
#include "cdc/in_flight_window.h"
#include "tests/relay_fixture.h"

namespace outbox {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RelayHaltTest : public RelayTest {
 protected:
  template <typename Action>
  std::string halt(Action action) {
    return refusal<HaltError>(action);
  }
  template <typename Action>
  std::string protocol_error(Action action) {
    return refusal<ProtocolError>(action);
  }
};

TEST_F(RelayHaltTest, AnEventWithoutAKeyNamesEventTableAndPlace) {
  begin(42);
  insert("order-7", "{}");
  const auto text = halt([&] { insert(std::nullopt, "secret payload"); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("id e2"), HasSubstr("public.outbox_events"), HasSubstr("transaction 42"),
                    HasSubstr("committed at 0/108"), HasSubstr("insert number 2"), HasSubstr("on_null.key: send")));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST_F(RelayHaltTest, ATopicThatKafkaWouldNotTakeNamesItAndNeitherKeyNorPayload) {
  begin(42);
  const auto text = halt([&] { insert("secret key", "secret payload", "bestellung ü"); });
  EXPECT_THAT(text, AllOf(HasSubstr("bestellung ü"), HasSubstr("id e1"), HasSubstr("transaction 42")));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST_F(RelayHaltTest, ARefusedRecordNamesTopicPlaceReasonAndRemedy) {
  begin(42);
  insert("secret key", "secret payload");
  insert("secret key", "secret payload");
  commit_at("0/2A0");
  sink.deliver(0);
  sink.refuse(0);
  const auto text = halt([&] { collect(); });
  EXPECT_THAT(
      text, AllOf(HasSubstr("topic \"orders\""), HasSubstr("transaction 42"), HasSubstr("committed at 0/108"),
                  HasSubstr("insert number 2"), HasSubstr("MSG_SIZE_TOO_LARGE"), HasSubstr("Raise max.message.bytes")));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST_F(RelayHaltTest, NothingFromARefusedRecordOnIsEverConfirmed) {
  transaction(42, {"good"}, "0/2A0");
  transaction(43, {"bad"}, "0/3A0");
  transaction(44, {"later"}, "0/4A0");
  sink.refuse(1);
  sink.deliver_all();
  EXPECT_NE(halt([&] { collect(); }), "");
  EXPECT_EQ(flushed(), "0/2A0");
  keepalive("0/5000");
  EXPECT_EQ(to_string(relay.take_status(now, false).flushed), "0/2A0");
}

TEST_F(RelayHaltTest, AfterAHaltTheSameHistoryResendsTheRefusedRecordAlone) {
  transaction(42, {"good"}, "0/2A0");
  transaction(43, {"bad"}, "0/3A0");
  transaction(44, {"later"}, "0/4A0");
  sink.refuse(1);
  sink.deliver_all();
  EXPECT_NE(halt([&] { collect(); }), "");
  sink.sent.clear();
  start("0/2A0", true);
  transaction(43, {"bad"}, "0/3A0");
  transaction(44, {"later"}, "0/4A0");
  EXPECT_EQ(sent(), "orders[bad]={}");
  deliver_all();
  EXPECT_EQ(flushed(), "0/4A0");
  EXPECT_EQ(relay.counts().records_suppressed, 1u);
}

TEST_F(RelayHaltTest, SettlingKeepsWhatWasDeliveredSendsNothingAndForgivesRefusals) {
  sink.room = 3;
  begin(42);
  insert("order-7", "{}");
  commit_at("0/2A0");
  begin(43);
  insert("order-8", "{}");
  insert("order-9", "{}");
  insert("held back", "{}");
  sink.refuse(2);
  sink.deliver_all();
  relay.settle(now);
  EXPECT_EQ(flushed(), "0/2A0");
  EXPECT_TRUE(relay.refused());
  EXPECT_TRUE(relay.all_reported());
  EXPECT_EQ(sent(), "orders[order-7]={}, orders[order-8]={}, orders[order-9]={}");
}

TEST_F(RelayHaltTest, WhatABreakingSinkReportedFirstIsNotSentAgain) {
  transaction(42, {"order-7"}, "0/2A0");
  sink.deliver();
  sink.broken = true;
  EXPECT_THROW(collect(), SinkBroken);
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayHaltTest, ANewStreamForgetsTheRecordThatWasHeldBack) {
  sink.room = 0;
  begin(42);
  insert("order-7", "{}");
  sink.room = 10;
  start("0/100", true);
  EXPECT_TRUE(relay.wants_input());
  collect();
  EXPECT_EQ(sent(), "");
}

TEST_F(RelayHaltTest, AnInsertIntoATableThatNoEntryNamesSaysWhatToDo) {
  begin(42);
  receive(wire::relation(777, "shop", "orders", {"n"}));
  const auto text = refusal<UnknownRelation>([&] { receive(wire::insert(777, {"secret"})); });
  EXPECT_THAT(text, AllOf(HasSubstr("shop.orders"), HasSubstr("ALTER PUBLICATION")));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

// Bytes that mean nothing end the stream; they never end the process.

TEST_F(RelayHaltTest, ACommitWithoutABeginIsAProtocolError) {
  EXPECT_THAT(protocol_error([&] { receive(wire::commit(lsn("0/1F8"), lsn("0/200"))); }),
              HasSubstr("belongs to no Begin"));
}

TEST_F(RelayHaltTest, ACommitOfAnotherTransactionIsAProtocolError) {
  begin(42);
  EXPECT_THAT(protocol_error([&] { receive(wire::commit(lsn("0/1F8"), lsn("0/200"))); }), HasSubstr("0/1F8"));
}

TEST_F(RelayHaltTest, ACommitThatEndsBeforeItBeginsIsAProtocolError) {
  begin(42);
  EXPECT_NE(protocol_error([&] { receive(wire::commit(commit_lsn, commit_lsn)); }), "");
  EXPECT_NE(protocol_error([&] { receive(wire::commit(commit_lsn, lsn("0/50"))); }), "");
}

TEST_F(RelayHaltTest, ABeginInsideATransactionIsAProtocolError) {
  begin(42);
  EXPECT_NE(protocol_error([&] { begin(43); }), "");
}

TEST_F(RelayHaltTest, AnInsertOutsideATransactionIsAProtocolError) {
  EXPECT_THAT(protocol_error([&] { insert("order-7", "{}"); }), HasSubstr("outside a transaction"));
}

TEST_F(RelayHaltTest, AnInsertIntoARelationThatWasNotDescribedIsAProtocolError) {
  begin(42);
  EXPECT_THAT(protocol_error([&] { receive(wire::insert(999, {"x"})); }), HasSubstr("999"));
}

TEST_F(RelayHaltTest, ARowOfAnotherWidthIsAProtocolError) {
  begin(42);
  insert("order-7", "{}");
  EXPECT_THAT(protocol_error([&] { receive(wire::insert(oid, {"x"})); }), HasSubstr("1 columns"));
}

TEST_F(RelayHaltTest, ATransactionFromBeforeTheOneBeforeIsAProtocolError) {
  transaction(42, {"waits"}, "0/2A0");
  EXPECT_NE(protocol_error([&] { receive(wire::begin(lsn("0/180"), 41)); }), "");
}

TEST_F(RelayHaltTest, ATransactionFromBeforeTheFlushedPositionIsAProtocolError) {
  keepalive("0/5000");
  EXPECT_NE(protocol_error([&] { receive(wire::begin(lsn("0/4000"), 41)); }), "");
}

TEST_F(RelayHaltTest, AStreamIsUsableAgainAfterAProtocolError) {
  begin(42);
  EXPECT_NE(protocol_error([&] { receive("?"); }), "");
  start("0/100", true);
  transaction(42, {"order-7"}, "0/2A0");
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayHaltTest, ACommitTimeBeyondTheCalendarDoesNoHarm) {
  for (const std::int64_t extreme :
       {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    commit_lsn = Lsn{last_end.value + 8};
    receive("B" + wire::integer(commit_lsn.value, 8) + wire::integer(static_cast<std::uint64_t>(extreme), 8) +
            wire::integer(42, 4));
    insert("order-7", "{}");
    commit_at(to_string(Lsn{last_end.value + 0x100}));
    deliver_all();
    EXPECT_EQ(relay.flushed_lsn(), last_end);
  }
}

}  // namespace
}  // namespace outbox
