// Claims about when a status update goes out.
#include "cdc/status_schedule.h"

#include <gtest/gtest.h>

#include "tests/wire.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

class StatusScheduleTest : public testing::Test {
 protected:
  StatusScheduleTest() {
    schedule.restart(start, interval);
    schedule.sent(start, lsn("0/100"));
  }
  milliseconds due_in(Lsn flushed, bool idle) const {
    return std::chrono::duration_cast<milliseconds>(schedule.due(flushed, idle) - start);
  }

  const TimePoint start{std::chrono::hours(1)};
  const milliseconds interval{10000};
  StatusSchedule schedule;
};

TEST_F(StatusScheduleTest, TheFirstUpdateIsDueAtOnce) {
  StatusSchedule fresh;
  fresh.restart(start, interval);
  EXPECT_LE(fresh.due(Lsn{}, true), start);
}

TEST_F(StatusScheduleTest, WithoutNewsAnUpdateGoesOutEveryInterval) {
  EXPECT_EQ(due_in(lsn("0/100"), true), interval);
  EXPECT_EQ(due_in(lsn("0/100"), false), interval);
}

TEST_F(StatusScheduleTest, UnderLoadAConfirmationIsAtMostASecondLate) {
  EXPECT_EQ(due_in(lsn("0/200"), false), milliseconds(1000));
}

TEST_F(StatusScheduleTest, OnceDrainedAConfirmationGoesOutSoon) {
  EXPECT_EQ(due_in(lsn("0/200"), true), milliseconds(100));
}

TEST_F(StatusScheduleTest, AReplyThatIsAskedForGoesOutAtTheShortestGap) {
  schedule.reply_requested();
  EXPECT_EQ(due_in(lsn("0/100"), false), StatusSchedule::shortest_gap);
}

TEST_F(StatusScheduleTest, AServerThatAsksInALoopIsNotAnsweredInALoop) {
  int answers = 0;
  for (auto now = start; now < start + milliseconds(1000); now += milliseconds(1)) {
    schedule.reply_requested();
    if (now < schedule.due(lsn("0/100"), true)) continue;
    schedule.sent(now, lsn("0/100"));
    ++answers;
  }
  EXPECT_EQ(answers, 9);
}

TEST_F(StatusScheduleTest, AnUpdateAnswersWhatWasAskedBefore) {
  schedule.reply_requested();
  schedule.sent(start + milliseconds(100), lsn("0/100"));
  EXPECT_EQ(due_in(lsn("0/100"), true), milliseconds(100) + interval);
}

TEST_F(StatusScheduleTest, ANewStreamHasConfirmedNothing) {
  EXPECT_EQ(schedule.confirmed(), lsn("0/100"));
  schedule.restart(start, interval);
  EXPECT_EQ(schedule.confirmed(), Lsn{});
}

}  // namespace
}  // namespace outbox
