// Claims about how long the relay waits before it tries again.
#include "cdc/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace outbox {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsCapAndStaysBetweenHalfAndWhole) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(milliseconds(100), milliseconds(5000), seed);
    for (const int whole : {100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000}) {
      const auto wait = backoff.next();
      EXPECT_GE(wait, milliseconds(whole / 2)) << "seed " << seed;
      EXPECT_LE(wait, milliseconds(whole)) << "seed " << seed;
    }
  }
}

TEST(Backoff, StartsAnewAfterAReset) {
  Backoff backoff(milliseconds(100), milliseconds(5000), 1);
  for (int tries = 0; tries < 10; ++tries) backoff.next();
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(100));
}

TEST(Backoff, RelaysWithOtherSeedsDoNotReturnAsOne) {
  std::set<milliseconds> waits;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    waits.insert(Backoff(milliseconds(1000), milliseconds(5000), seed).next());
  }
  EXPECT_GT(waits.size(), 10u);
}

}  // namespace
}  // namespace outbox
