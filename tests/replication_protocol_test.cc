// Claims about the frames inside CopyData, and about the reader that takes them apart.
#include "cdc/replication_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cdc/byte_reader.h"
#include "cdc/errors.h"
#include "tests/wire.h"

namespace outbox {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view frame) {
  try {
    decode_frame(frame);
    return "";
  } catch (const ProtocolError& error) {
    return error.what();
  }
}

TEST(ByteReader, ReadsBigEndianIntegersStringsAndTheRest) {
  const std::string bytes(
      "\x01\x02\x03\x04\x05\x06\x07\xff\xff\xff\xff\xff\xff\xff\xfe"
      "ab\0rest",
      22);
  ByteReader reader(bytes, "Test");
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u16(), 0x0203);
  EXPECT_EQ(reader.u32(), 0x04050607u);
  EXPECT_EQ(reader.i64(), -2);
  EXPECT_EQ(reader.string(), "ab");
  EXPECT_EQ(reader.rest(), "rest");
  EXPECT_NO_THROW(reader.expect_end());
}

TEST(ByteReader, RefusesToReadBeyondTheEndAndNamesTheMessage) {
  const auto short_read = [](auto read) {
    ByteReader reader(std::string_view("abc", 3), "Commit");
    try {
      read(reader);
      return std::string();
    } catch (const ProtocolError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(short_read([](ByteReader& r) { r.u32(); }), HasSubstr("Commit message from PostgreSQL is cut short"));
  EXPECT_THAT(short_read([](ByteReader& r) { r.u64(); }), HasSubstr("cut short"));
  EXPECT_THAT(short_read([](ByteReader& r) { r.string(); }), HasSubstr("cut short"));
  EXPECT_THAT(short_read([](ByteReader& r) { r.bytes(4); }), HasSubstr("cut short"));
  EXPECT_THAT(short_read([](ByteReader& r) { r.bytes(~std::size_t{0}); }), HasSubstr("cut short"));
  EXPECT_THAT(short_read([](ByteReader& r) { r.u8(), r.expect_end(); }), HasSubstr("has 2 bytes after its end"));
}

TEST(ReplicationProtocol, ReadsXLogData) {
  const auto bytes = "w" + wire::integer(0x2A0, 8) + wire::integer(0x2B0, 8) + wire::integer(7, 8) + "payload";
  const auto frame = decode_frame(bytes);
  const auto& data = std::get<XLogData>(frame);
  EXPECT_EQ(data.wal_start, lsn("0/2A0"));
  EXPECT_EQ(data.wal_end, lsn("0/2B0"));
  EXPECT_EQ(data.payload, "payload");
}

TEST(ReplicationProtocol, ReadsAKeepalive) {
  const auto quiet = decode_frame(wire::keepalive(lsn("1/2A0")));
  EXPECT_EQ(std::get<PrimaryKeepalive>(quiet).wal_end, lsn("1/2A0"));
  EXPECT_FALSE(std::get<PrimaryKeepalive>(quiet).reply_requested);
  const auto asking = decode_frame(wire::keepalive(lsn("1/2A0"), true));
  EXPECT_TRUE(std::get<PrimaryKeepalive>(asking).reply_requested);
}

TEST(ReplicationProtocol, RefusesEveryTruncatedKeepalive) {
  const auto whole = wire::keepalive(lsn("0/2A0"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(std::string_view(whole).substr(0, size)), "") << size << " bytes";
  }
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("1 bytes after its end"));
}

TEST(ReplicationProtocol, RefusesEveryTruncatedXLogDataHeader) {
  const auto header = wire::xlog_data(lsn("0/2A0"), "");
  for (std::size_t size = 0; size < header.size(); ++size) {
    EXPECT_NE(refusal(std::string_view(header).substr(0, size)), "") << size << " bytes";
  }
}

TEST(ReplicationProtocol, NamesAFrameThatItDoesNotKnow) {
  EXPECT_THAT(refusal("z"), HasSubstr("unknown replication frame 0x7a"));
  EXPECT_THAT(refusal("\xff"), HasSubstr("0xff"));
  EXPECT_THAT(refusal(""), HasSubstr("empty CopyData"));
}

TEST(ReplicationProtocol, WritesAStatusUpdateByteForByte) {
  const StandbyStatusUpdate update{.written = Lsn{1}, .flushed = Lsn{2}, .applied = Lsn{3}, .reply_requested = true};
  EXPECT_EQ(encode(update, from_postgres_time(4)), "r" + wire::integer(1, 8) + wire::integer(2, 8) +
                                                       wire::integer(3, 8) + wire::integer(4, 8) + wire::integer(1, 1));
}

TEST(ReplicationProtocol, CountsTimeFromTheYear2000) {
  using std::chrono::sys_days;
  EXPECT_EQ(from_postgres_time(0), WallTime(sys_days{std::chrono::January / 1 / 2000}));
  EXPECT_EQ(from_postgres_time(-1'000'000),
            WallTime(sys_days{std::chrono::December / 31 / 1999}) + std::chrono::seconds(86399));
  EXPECT_EQ(to_postgres_time(from_postgres_time(123456789)), 123456789);
}

// 'infinity' and bytes that mean nothing must not overflow the arithmetic of whoever subtracts two times.
TEST(ReplicationProtocol, BringsTimesFromBeyondTheCalendarBackIntoIt) {
  for (const auto extreme : {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    const auto time = from_postgres_time(extreme);
    EXPECT_GT(wire::noon - time, std::chrono::microseconds::min());
    EXPECT_GT(time - wire::noon, std::chrono::microseconds::min());
    EXPECT_EQ(time > wire::noon, extreme > 0);
  }
}

}  // namespace
}  // namespace outbox
