// How far a remembered position is believed, and what a checkpoint says.
#include "cdc/resume.h"

#include <gtest/gtest.h>

#include "cdc/checkpoint.h"
#include "cdc/timeline.h"
#include "tests/wire.h"

namespace outbox {
namespace {

using Verdict = Resumption::Verdict;

const HistoryIdentity first_timeline{.system_identifier = "7000", .timeline = "1"};
const HistoryIdentity second_timeline{.system_identifier = "7000", .timeline = "2"};

DeliveredPart part(const char* commit_lsn, std::uint64_t records = DeliveredPart::all) {
  return {.commit_lsn = lsn(commit_lsn), .xid = 740, .commit_time = wire::noon, .records = records};
}

ServerPosition server(const HistoryIdentity& identity, const char* confirmed,
                      std::optional<Lsn> switch_point = std::nullopt) {
  return {
      .identity = identity, .slot_confirmed = lsn(confirmed), .wal_end = lsn("0/F00"), .switch_point = switch_point};
}

TEST(Resume, WhatTheSlotForgotIsPassedOverUpToTheLastTransactionDelivered) {
  const auto found =
      judge({.flushed = lsn("0/300"), .last = part("0/2F0")}, first_timeline, server(first_timeline, "0/100"));
  EXPECT_EQ(found.verdict, Verdict::believed);
  EXPECT_TRUE(found.same_history);
  ASSERT_TRUE(found.resume && found.resume->anchor);
  EXPECT_EQ(found.resume->commit_lsn, lsn("0/2F0"));
  EXPECT_EQ(found.resume->anchor->records, DeliveredPart::all);
}

TEST(Resume, APartOfATransactionIsPassedOverToo) {
  const auto found =
      judge({.flushed = lsn("0/300"), .last = part("0/4F0", 5)}, first_timeline, server(first_timeline, "0/300"));
  ASSERT_TRUE(found.resume && found.resume->anchor);
  EXPECT_EQ(found.resume->anchor->records, 5);
}

TEST(Resume, ASlotThatRemembersAllSaysAll) {
  const auto found =
      judge({.flushed = lsn("0/300"), .last = part("0/2F0")}, first_timeline, server(first_timeline, "0/300"));
  EXPECT_EQ(found.verdict, Verdict::believed);
  EXPECT_FALSE(found.resume);
}

TEST(Resume, ASlotBeyondWhatWasDeliveredIsAGap) {
  const auto found =
      judge({.flushed = lsn("0/300"), .last = part("0/2F0")}, first_timeline, server(first_timeline, "0/301"));
  EXPECT_EQ(found.verdict, Verdict::gap);
}

TEST(Resume, AServerThatIsBehindWasRestored) {
  auto restored = server(first_timeline, "0/100");
  restored.wal_end = lsn("0/2FF");
  EXPECT_EQ(judge({.flushed = lsn("0/300"), .last = part("0/2F0")}, first_timeline, restored).verdict,
            Verdict::server_back);
}

TEST(Resume, AnotherSystemIsNotBelieved) {
  const HistoryIdentity other{.system_identifier = "7001", .timeline = "1"};
  EXPECT_EQ(judge({.flushed = lsn("0/300"), .last = {}}, other, server(first_timeline, "0/100")).verdict,
            Verdict::other);
}

TEST(Resume, ATimelineThatIsNotAnAncestorIsNotBelieved) {
  EXPECT_EQ(judge({.flushed = lsn("0/300"), .last = {}}, second_timeline, server(first_timeline, "0/100")).verdict,
            Verdict::other);
}

TEST(Resume, OnALaterTimelineAllBelowTheSwitchPointIsBelieved) {
  const auto found = judge({.flushed = lsn("0/300"), .last = part("0/2F0")}, first_timeline,
                           server(second_timeline, "0/100", lsn("0/300")));
  EXPECT_TRUE(found.same_history);
  ASSERT_TRUE(found.resume && found.resume->anchor);
}

TEST(Resume, WhatWasSentBeyondTheSwitchPointCoversNothingOfTheNewTimeline) {
  const auto found = judge({.flushed = lsn("0/300"), .last = part("0/2F0")}, first_timeline,
                           server(second_timeline, "0/100", lsn("0/280")));
  EXPECT_EQ(found.verdict, Verdict::believed);
  EXPECT_FALSE(found.same_history);
  EXPECT_EQ(found.flushed, lsn("0/280"));
  ASSERT_TRUE(found.resume);
  EXPECT_EQ(found.resume->commit_lsn, lsn("0/280"));
  EXPECT_FALSE(found.resume->anchor);
}

TEST(Resume, APartBeyondTheSwitchPointIsOfATransactionThatNeverWas) {
  const auto found = judge({.flushed = lsn("0/200"), .last = part("0/2F0", 3)}, first_timeline,
                           server(second_timeline, "0/100", lsn("0/280")));
  EXPECT_FALSE(found.same_history);
  EXPECT_EQ(found.flushed, lsn("0/200"));
}

TEST(Checkpoint, SaysWhatItWasGiven) {
  for (const auto& progress :
       {Progress{.flushed = lsn("0/300"), .last = {}}, Progress{.flushed = lsn("0/300"), .last = part("0/2F0")},
        Progress{.flushed = lsn("0/300"), .last = part("0/4F0", 5)}}) {
    const Checkpoint checkpoint{.identity = first_timeline, .progress = progress};
    EXPECT_EQ(decode_checkpoint(encode(checkpoint)), checkpoint) << encode(checkpoint);
  }
}

TEST(Checkpoint, IsReadableAndStable) {
  EXPECT_EQ(encode({.identity = first_timeline,
                    .progress = {.flushed = lsn("0/300"),
                                 .last = DeliveredPart{.commit_lsn = lsn("0/4F0"),
                                                       .xid = 740,
                                                       .commit_time = from_postgres_time(829000000),
                                                       .records = 5}}}),
            R"({"version":1,"system_identifier":"7000","timeline":"1","flushed_lsn":"0/300","commit_lsn":"0/4F0",)"
            R"("records":5,"complete":false,"xid":740,"commit_time_us":829000000})");
}

TEST(Checkpoint, WhatIsNoneIsNone) {
  for (const char* text :
       {"", "{}", "null", "[]", "17", R"({"version":2})", R"({"version":"1"})",
        R"({"version":1,"system_identifier":"7","timeline":"1","flushed_lsn":"x"})",
        R"({"version":1,"system_identifier":"7","timeline":"1","flushed_lsn":"0/1","commit_lsn":"0/2"})"}) {
    EXPECT_FALSE(decode_checkpoint(text)) << text;
  }
}

TEST(Timeline, AHistoryFileSaysWhereEachTimelineEnded) {
  const auto history =
      parse_timeline_history("1\t0/30000A0\tno recovery target specified\n\n# a comment\n2\t1/0\tbefore x\n");
  EXPECT_EQ(switch_point(history, "1"), lsn("0/30000A0"));
  EXPECT_EQ(switch_point(history, "2"), lsn("1/0"));
  EXPECT_FALSE(switch_point(history, "3"));
}

}  // namespace
}  // namespace outbox
