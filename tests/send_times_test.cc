// Claims about the age of the oldest unacknowledged record, and about the ages of those that were acknowledged.
#include "cdc/send_times.h"

#include <gtest/gtest.h>

#include <random>

#include "cdc/age_histogram.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint start{std::chrono::hours(1)};

TEST(SendTimes, NothingOutHasNoAge) {
  SendTimes times;
  EXPECT_EQ(times.oldest_age(0, 0, start), seconds(0));
  times.record_sent(0, start);
  EXPECT_EQ(times.oldest_age(1, 1, start + seconds(9)), seconds(0));
}

TEST(SendTimes, TheOldestUnacknowledgedRecordCounts) {
  SendTimes times;
  times.record_sent(0, start);
  times.record_sent(1, start + seconds(5));
  EXPECT_EQ(times.oldest_age(0, 2, start + seconds(6)), seconds(6));
  EXPECT_EQ(times.oldest_age(1, 2, start + seconds(6)), seconds(1));
}

TEST(SendTimes, AfterAnIdleHourANewRecordIsYoung) {
  SendTimes times;
  times.record_sent(0, start);
  times.oldest_age(1, 1, start + seconds(1));
  times.record_sent(1, start + seconds(3600));
  EXPECT_EQ(times.oldest_age(1, 2, start + seconds(3601)), seconds(1));
}

TEST(SendTimes, ClearingForgetsTheStreamBefore) {
  SendTimes times;
  times.record_sent(0, start);
  times.clear();
  times.record_sent(7, start + seconds(60));
  EXPECT_EQ(times.oldest_age(7, 8, start + seconds(61)), seconds(1));
}

// Compared with a list of every record's time.
TEST(SendTimes, AreNeverYoungerThanTheTruthAndAtMostAGapOlder) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  SendTimes times;
  std::vector<TimePoint> sent;
  std::size_t acknowledged = 0;
  auto now = start;
  for (int step = 0; step < 5000; ++step) {
    now += milliseconds(random() % 60);
    if (random() % 3 != 0) {
      times.record_sent(sent.size(), now);
      sent.push_back(now);
    } else if (acknowledged < sent.size()) {
      acknowledged += 1 + random() % (sent.size() - acknowledged);
    }
    const auto truth = acknowledged < sent.size() ? now - sent[acknowledged] : seconds(0);
    const auto age = times.oldest_age(acknowledged, sent.size(), now);
    ASSERT_GE(age, truth) << "step " << step;
    ASSERT_LE(age, truth + SendTimes::sampling_gap) << "step " << step;
  }
}

TEST(AgeHistogram, CountsAnEventInTheFirstBucketThatHoldsIt) {
  AgeHistogram ages;
  ages.observe(0.001, 1);
  ages.observe(0.002, 2);
  ages.observe(1000, 3);
  EXPECT_EQ(ages.counts[0], 1);
  EXPECT_EQ(ages.counts[1], 2);
  EXPECT_EQ(ages.counts.back(), 3);
  EXPECT_DOUBLE_EQ(ages.sum, 0.001 + 2 * 0.002 + 3 * 1000);
}

TEST(AgeHistogram, AnEventFromTheFutureIsNewNotNegative) {
  AgeHistogram ages;
  ages.observe(-5, 4);
  EXPECT_EQ(ages.counts[0], 4);
  EXPECT_EQ(ages.sum, 0);
}

}  // namespace
}  // namespace outbox
