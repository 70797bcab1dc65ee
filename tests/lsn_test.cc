// Claims about positions in the write-ahead log.
#include "cdc/lsn.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

TEST(Lsn, PrintsAsPostgresDoes) {
  EXPECT_EQ(to_string(Lsn{}), "0/0");
  EXPECT_EQ(to_string(Lsn{0x16'B374D848}), "16/B374D848");
  EXPECT_EQ(to_string(Lsn{0x2'0000000A}), "2/A");
  EXPECT_EQ(to_string(Lsn{~std::uint64_t{0}}), "FFFFFFFF/FFFFFFFF");
}

TEST(Lsn, ReadsBackWhatItPrints) {
  for (const std::uint64_t value : {0ull, 1ull, 0xffffffffull, 0x100000000ull, 0x16B374D848ull, ~0ull}) {
    EXPECT_EQ(parse_lsn(to_string(Lsn{value})), Lsn{value}) << value;
  }
}

TEST(Lsn, ReadsLowerCaseToo) { EXPECT_EQ(parse_lsn("16/b374d848"), Lsn{0x16'B374D848}); }

TEST(Lsn, RefusesTextThatIsNoPosition) {
  for (const char* text : {"", "/", "16", "16/", "/1", "16/G", "x/1", "16/1 ", " 16/1", "16/-1", "-1/1", "1/2/3",
                           "100000000/0", "0/100000000"}) {
    EXPECT_EQ(parse_lsn(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(Lsn, OrdersByItsWholeValue) {
  EXPECT_LT(Lsn{0x0'FFFFFFFF}, Lsn{0x1'00000000});
  EXPECT_LT(Lsn{}, Lsn{1});
}

TEST(Lsn, ZeroIsNoPosition) {
  EXPECT_FALSE(Lsn{});
  EXPECT_TRUE(Lsn{1});
}

}  // namespace
}  // namespace outbox
