// Claims about records that can never be delivered as they are, where the policy is the dead-letter topic.
#include "tests/relay_fixture.h"

namespace outbox {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

DeliveryConfig all_to_dead_letters() {
  DeliveryConfig delivery;
  delivery.on_failure.fill(OnFailure::dead_letter);
  delivery.dead_letter_topic = "dead";
  return delivery;
}

class RelayDeadLetterTest : public RelayTest {
 protected:
  RelayDeadLetterTest() : RelayTest(plain_route, all_to_dead_letters()) {}

  template <typename Action>
  std::string halt(Action action) {
    return refusal<HaltError>(action);
  }
  std::string letter_due() {
    return refusal<DeadLetterDue>([&] { collect(); });
  }
  static std::uint64_t of(FailureClass failure_class, const decltype(RelayCounts::dead_lettered)& counts) {
    return counts[static_cast<std::size_t>(failure_class)];
  }
  void start_again(const std::string& position) {
    sink.sent.clear();
    start(position, true);
  }
};

TEST_F(RelayDeadLetterTest, ARefusedRecordGoesThereWhenItsEventComesByAgain) {
  transaction(42, {"good"}, "0/2A0");
  transaction(43, {"good", "bad", "later"}, "0/3A0");
  sink.deliver(0);
  sink.deliver(0);
  sink.refuse(0);
  sink.give_up_all();
  const auto text = letter_due();
  EXPECT_THAT(text, AllOf(HasSubstr("topic \"orders\""), HasSubstr("transaction 43"), HasSubstr("insert number 2"),
                          HasSubstr("topic \"dead\"")));
  EXPECT_TRUE(relay.all_reported());
  EXPECT_TRUE(relay.refused());
  EXPECT_EQ(flushed(), "0/2A0");
  EXPECT_EQ(relay.held_bytes(), 0u);

  start_again("0/2A0");
  transaction(43, {"good", "bad", "later"}, "0/3A0");
  ASSERT_THAT(sink.sent, SizeIs(2)) << "what was acknowledged is not sent again";
  EXPECT_THAT(
      sink.sent[0],
      AllOf(StartsWith("dead[bad]"), HasSubstr("{outbox-relay-reason:MSG_SIZE_TOO_LARGE}"),
            HasSubstr("{outbox-relay-class:too_large}"), HasSubstr("{outbox-relay-source-table:public.outbox_events}"),
            HasSubstr("{outbox-relay-commit-lsn:0/2A8}"), HasSubstr("{outbox-relay-ordinal:1}"),
            HasSubstr("{outbox-relay-attempts:1}"), HasSubstr("{outbox-relay-original-topic:orders}"),
            Not(HasSubstr("pointer")), testing::EndsWith("={}")));
  EXPECT_EQ(sink.sent[1], "orders[later]={}");
  EXPECT_EQ(flushed(), "0/2A0") << "it counts once it is acknowledged there";
  deliver_all();
  EXPECT_EQ(flushed(), "0/3A0");
  EXPECT_EQ(of(FailureClass::too_large, relay.counts().dead_lettered), 1u);
  EXPECT_EQ(of(FailureClass::too_large, relay.counts().records_failed), 1u);
  EXPECT_EQ(relay.counts().records_delivered, 3u);
}

TEST_F(RelayDeadLetterTest, SeveralRefusalsTakeOneNewStream) {
  transaction(42, {"a", "b", "c"}, "0/2A0");
  sink.refuse(0);
  sink.refuse(1);
  sink.give_up_all();
  EXPECT_NE(letter_due(), "");
  start_again("0/100");
  transaction(42, {"a", "b", "c"}, "0/2A0");
  EXPECT_THAT(sink.sent, ElementsAre(StartsWith("dead[a]"), "orders[b]={}", StartsWith("dead[c]")));
}

// A checkpoint decides what is sent again, so the stream may be told of no history; the verdict still has to hold.
TEST_F(RelayDeadLetterTest, OfTheSameTransactionAVerdictIsBelievedWhateverElseIsForgotten) {
  transaction(42, {"a"}, "0/2A0");
  sink.refuse(0);
  EXPECT_NE(letter_due(), "");
  sink.sent.clear();
  start("0/100", false);
  transaction(42, {"a"}, "0/2A0");
  EXPECT_THAT(sink.sent, ElementsAre(StartsWith("dead[a]")));
}

TEST_F(RelayDeadLetterTest, OfAnotherHistoryNoVerdictIsBelieved) {
  transaction(42, {"a"}, "0/2A0");
  sink.refuse(0);
  EXPECT_NE(letter_due(), "");
  sink.sent.clear();
  start("0/100", false);
  pass(std::chrono::seconds(1));
  transaction(42, {"a"}, "0/2A0");
  EXPECT_EQ(sent(), "orders[a]={}");
}

TEST_F(RelayDeadLetterTest, WhatTheProducerRefusesAtOnceNeedsNoNewStream) {
  sink.refuse_at_once = [](const Record& record) { return record.value == "large" && record.topic == "orders"; };
  begin(42);
  insert("a", "small");
  insert("b", "large");
  insert("c", "small");
  commit_at("0/2A0");
  EXPECT_THAT(sink.sent, ElementsAre("orders[a]=small", AllOf(StartsWith("dead[b]"), testing::EndsWith("=large")),
                                     "orders[c]=small"));
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayDeadLetterTest, WhatIsTooLargeForTheDeadLettersTooBecomesAPointer) {
  sink.refuse_at_once = [](const Record& record) { return record.value == "large"; };
  begin(42);
  insert("a", "large");
  commit_at("0/2A0");
  EXPECT_THAT(sink.sent, ElementsAre(AllOf(StartsWith("dead[a]"), HasSubstr("{outbox-relay-pointer:true}"),
                                           HasSubstr("{outbox-relay-event-id:e1}"), testing::EndsWith("=NULL"))));
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayDeadLetterTest, ALetterThatTheBrokerFindsTooLargeBecomesAPointerToo) {
  transaction(42, {"a"}, "0/2A0");
  sink.refuse();
  EXPECT_NE(letter_due(), "");
  start_again("0/100");
  transaction(42, {"a"}, "0/2A0");
  sink.refuse();
  EXPECT_NE(letter_due(), "");
  start_again("0/100");
  row = 0;
  transaction(42, {"a"}, "0/2A0");
  EXPECT_THAT(sink.sent,
              ElementsAre(AllOf(HasSubstr("{outbox-relay-pointer:true}"), HasSubstr("{outbox-relay-class:too_large}"),
                                HasSubstr("{outbox-relay-event-id:e1}"), testing::EndsWith("=NULL"))));
  sink.refuse();
  EXPECT_THAT(halt([&] { collect(); }), HasSubstr("topic \"dead\"")) << "and no smaller than that";
}

TEST_F(RelayDeadLetterTest, ARefusalOfTheDeadLetterTopicHaltsAndNamesIt) {
  transaction(42, {"a"}, "0/2A0");
  sink.refuse();
  EXPECT_NE(letter_due(), "");
  start_again("0/100");
  transaction(42, {"a"}, "0/2A0");
  sink.refuse(0, FailureClass::unauthorized);
  EXPECT_THAT(halt([&] { collect(); }), HasSubstr("topic \"dead\""));
  EXPECT_EQ(flushed(), "0/100");
}

TEST_F(RelayDeadLetterTest, AMissingTopicSendsItsLaterRecordsThereForAWhileAndHoldsUpNoOther) {
  transaction(42, {"a"}, "0/2A0");
  sink.refuse(0, FailureClass::unknown_topic);
  EXPECT_NE(letter_due(), "");
  start_again("0/100");
  begin(42);
  insert("a", "{}");
  commit_at("0/2A0");
  begin(43);
  insert("b", "{}");
  insert("c", "{}", "invoices");
  commit_at("0/3A0");
  EXPECT_THAT(sink.sent, ElementsAre(StartsWith("dead[a]"), StartsWith("dead[b]"), "invoices[c]={}"));
  EXPECT_THAT(sink.sent[1], HasSubstr("{outbox-relay-attempts:0}"));
  deliver_all();
  EXPECT_EQ(flushed(), "0/3A0");
  EXPECT_EQ(of(FailureClass::unknown_topic, relay.counts().dead_lettered), 2u);

  pass(DeadLetters::topic_verdict_time);
  sink.sent.clear();
  transaction(44, {"d"}, "0/4A0");
  EXPECT_EQ(sent(), "orders[d]={}") << "the topic is tried again";
}

TEST_F(RelayDeadLetterTest, ARowThatMakesNoRecordGoesThereWithWhatItHas) {
  begin(42);
  insert(std::nullopt, "{}");
  insert("order-7", "{}", "bestellung ü");
  insert("order-8", "{}", "");
  insert("order-9", "{}", "..");
  insert("order-10", "{}", std::nullopt);
  insert("order-11", "{}", std::string(250, 'x'));
  insert("order-12", "{}");
  commit_at("0/2A0");
  ASSERT_THAT(sink.sent, SizeIs(7));
  EXPECT_THAT(sink.sent[0], AllOf(StartsWith("dead[NULL]{id:e1}{aggregate_type:orders}{event_type:placed}"),
                                  HasSubstr("{outbox-relay-class:unmappable}"), testing::EndsWith("={}")));
  for (std::size_t index = 1; index < 6; ++index) {
    EXPECT_THAT(sink.sent[index], AllOf(StartsWith("dead[order-"), HasSubstr("{outbox-relay-class:invalid_topic}")));
  }
  EXPECT_EQ(sink.sent[6], "orders[order-12]={}");
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
  EXPECT_EQ(of(FailureClass::unmappable, relay.counts().dead_lettered), 1u);
  EXPECT_EQ(of(FailureClass::invalid_topic, relay.counts().dead_lettered), 5u);
}

TEST_F(RelayDeadLetterTest, ALetterWaitsForAFullSinkAsARecordDoes) {
  sink.room = 1;
  begin(42);
  insert("a", "{}");
  insert(std::nullopt, "{}");
  EXPECT_FALSE(relay.wants_input());
  sink.deliver();
  collect();
  EXPECT_TRUE(relay.wants_input());
  commit_at("0/2A0");
  EXPECT_THAT(sink.sent, ElementsAre("orders[a]={}", StartsWith("dead[NULL]")));
  deliver_all();
  EXPECT_EQ(flushed(), "0/2A0");
  EXPECT_EQ(of(FailureClass::unmappable, relay.counts().dead_lettered), 1u);
}

TEST_F(RelayTest, ARefusalAtOnceUnderHaltNamesEventPlaceAndRemedyAndSendsNothing) {
  sink.refuse_at_once = [](const Record& record) { return record.value == "large"; };
  begin(42);
  insert("a", "small");
  const auto text = refusal<HaltError>([&] { insert("b", "large"); });
  EXPECT_THAT(text, AllOf(HasSubstr("topic \"orders\""), HasSubstr("id e2"), HasSubstr("insert number 2"),
                          HasSubstr("Raise message.max.bytes")));
  EXPECT_TRUE(relay.refused());
  EXPECT_EQ(sent(), "orders[a]=small");
}

// What no policy can be set for.
TEST_F(RelayDeadLetterTest, AnUnknownFailureHalts) {
  transaction(42, {"a"}, "0/2A0");
  sink.refuse(0, FailureClass::other);
  EXPECT_NE(halt([&] { collect(); }), "");
}

class RelayMixedPolicyTest : public RelayTest {
 protected:
  static DeliveryConfig too_large_only() {
    DeliveryConfig delivery;
    delivery.on_failure[static_cast<std::size_t>(FailureClass::too_large)] = OnFailure::dead_letter;
    delivery.dead_letter_topic = "dead";
    return delivery;
  }
  RelayMixedPolicyTest() : RelayTest(plain_route, too_large_only()) {}
};

TEST_F(RelayMixedPolicyTest, OneRefusalThatHaltsOutweighsOneThatDoesNot) {
  transaction(42, {"a", "b"}, "0/2A0");
  sink.refuse(0);
  sink.refuse(0, FailureClass::unauthorized);
  EXPECT_THAT(refusal<HaltError>([&] { collect(); }), HasSubstr("insert number 2"));
}

class RelayBudgetTest : public RelayTest {
 protected:
  RelayBudgetTest() : RelayTest(plain_route, {}, 2000) {}
};

TEST_F(RelayBudgetTest, NothingIsReadWhileTheBudgetIsHeldAndAllOfItComesBack) {
  begin(42);
  insert("a", std::string(1000, 'x'));
  EXPECT_TRUE(relay.wants_input());
  insert("b", std::string(1000, 'x'));
  EXPECT_FALSE(relay.wants_input());
  EXPECT_GT(relay.held_bytes(), 2000u);
  sink.deliver();
  collect();
  EXPECT_TRUE(relay.wants_input());
  commit_at("0/2A0");
  deliver_all();
  EXPECT_EQ(relay.held_bytes(), 0u);
  EXPECT_EQ(flushed(), "0/2A0");
}

TEST_F(RelayBudgetTest, ARecordLargerThanTheBudgetGoesAlone) {
  begin(42);
  insert("a", std::string(100'000, 'x'));
  EXPECT_FALSE(relay.wants_input());
  deliver_all();
  EXPECT_TRUE(relay.wants_input());
  commit_at("0/2A0");
  EXPECT_EQ(flushed(), "0/2A0");
}

}  // namespace
}  // namespace outbox
