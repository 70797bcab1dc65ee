// Claims about what the window remembers from one stream to the next.
#include <gtest/gtest.h>

#include "tests/window_fixture.h"

namespace outbox {
namespace {

using InFlightWindowRestartTest = InFlightWindowTest;

TEST_F(InFlightWindowRestartTest, FindsWhatWasDeliveredBeyondTheWatermark) {
  transaction("0/200", 1);
  const auto second = transaction("0/300", 3);
  deliver(second[0]);
  deliver(second[2]);
  restart("0/100", true);
  EXPECT_EQ(flushed(), "0/100");
  EXPECT_EQ(resend("0/200", 1), "s");
  EXPECT_EQ(resend("0/300", 3), "dsd");
}

TEST_F(InFlightWindowRestartTest, FindsTheDeliveredPrefixOfATransactionThatWasCutOff) {
  open("0/200");
  deliver(record());
  deliver(record());
  record();
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 5), "ddsss");
}

TEST_F(InFlightWindowRestartTest, ARecordThatIsPassedOverCountsAsDelivered) {
  transaction("0/200", 1);
  const auto second = transaction("0/300", 1);
  deliver(second[0]);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 1), "s");
  EXPECT_EQ(resend("0/300", 1), "d");
  EXPECT_EQ(window.records_out(), 1u);
  deliver(Ticket{window.oldest_out()});
  EXPECT_EQ(flushed(), "0/300");
}

TEST_F(InFlightWindowRestartTest, ASecondRestartInMidTransactionKeepsWhatTheFirstKnew) {
  const auto records = transaction("0/200", 4);
  deliver(records[1]);
  deliver(records[3]);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 2, false), "sd");  // Broken off after two of four.
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 4), "sdsd");
}

TEST_F(InFlightWindowRestartTest, ASecondRestartInMidTransactionAddsWhatTheSecondStreamDelivered) {
  const auto records = transaction("0/200", 4);
  deliver(records[1]);
  deliver(records[3]);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 2, false), "sd");
  deliver(Ticket{window.oldest_out()});
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 4), "ddsd");
}

TEST_F(InFlightWindowRestartTest, AStreamThatNeverCameSoFarLeavesWhatAnOlderOneKnew) {
  transaction("0/200", 1);
  const auto second = transaction("0/300", 2);
  deliver(second[1]);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 1), "s");
  restart("0/100", true);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 1), "s");
  EXPECT_EQ(resend("0/300", 2), "sd");
}

TEST_F(InFlightWindowRestartTest, ATransactionThatCommitsWhereTheLastOneEndedIsFoundAgain) {
  window.open(lsn("0/100"), 7, wire::noon);
  record();
  deliver(record());
  window.committed(lsn("0/108"));
  restart("0/100", true);
  restart("0/100", true);  // This stream saw nothing.
  window.open(lsn("0/100"), 7, wire::noon);
  EXPECT_FALSE(window.delivered_before());
  record();
  EXPECT_TRUE(window.delivered_before());
}

TEST_F(InFlightWindowRestartTest, WhatIsFlushedMeanwhileIsNotMistakenForAnother) {
  transaction("0/200", 1);
  const auto second = transaction("0/300", 2);
  deliver(second[1]);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 1), "s");
  EXPECT_EQ(resend("0/300", 2), "sd");
  deliver(Ticket{window.oldest_out()});
  deliver(Ticket{window.oldest_out()});
  restart("0/300", true);
  EXPECT_EQ(resend("0/400", 2), "ss");
}

TEST_F(InFlightWindowRestartTest, AnotherHistoryForgetsEverything) {
  transaction("0/200", 1);
  const auto second = transaction("0/300", 2);
  deliver(second[0]);
  restart("0/80", false);
  EXPECT_EQ(flushed(), "0/80");
  EXPECT_EQ(resend("0/200", 1), "s");
  EXPECT_EQ(resend("0/300", 2), "ss");
}

TEST_F(InFlightWindowRestartTest, AnotherHistoryStaysForgottenAfterTheNextRestart) {
  const auto first = transaction("0/200", 2);
  deliver(first[1]);
  restart("0/100", false);
  restart("0/100", true);
  EXPECT_EQ(resend("0/200", 2), "ss");
}

TEST_F(InFlightWindowRestartTest, IsIdleAndEmptyAfterARestart) {
  open("0/200");
  record();
  restart("0/100", true);
  EXPECT_TRUE(window.idle());
  EXPECT_FALSE(window.full());
  EXPECT_EQ(window.records_out(), 0u);
}

}  // namespace
}  // namespace outbox
