// Claims about records as JSON lines.
#include "sinks/stdout_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <nlohmann/json.hpp>

namespace outbox {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StdoutSink, WritesOneLineOfJsonARecord) {
  EXPECT_EQ(to_json_line({.topic = "orders",
                          .key = "order-7",
                          .value = R"({"a": 1})",
                          .headers = {{"id", "e1"}, {"event_type", "placed"}},
                          .partition = 3,
                          .timestamp_ms = 1767323045000}),
            R"({"topic":"orders","partition":3,"key":"order-7","headers":{"id":"e1","event_type":"placed"},)"
            R"("timestamp_ms":1767323045000,"value":"{\"a\": 1}"})"
            "\n");
}

TEST(StdoutSink, TellsNullFromEmpty) {
  const auto null =
      nlohmann::json::parse(to_json_line({.topic = "t", .key = {}, .value = {}, .headers = {}, .partition = {}}));
  EXPECT_TRUE(null["key"].is_null());
  EXPECT_TRUE(null["value"].is_null());
  EXPECT_FALSE(null.contains("partition"));
  const auto empty =
      nlohmann::json::parse(to_json_line({.topic = "t", .key = "", .value = "", .headers = {}, .partition = {}}));
  EXPECT_EQ(empty["key"], "");
  EXPECT_EQ(empty["value"], "");
}

TEST(StdoutSink, StaysOneLineWhateverTheBytes) {
  const std::string odd("\n\r\0\"\\ü\xff", 8);
  const auto line = to_json_line({.topic = "t", .key = odd, .value = odd, .headers = {{"h", odd}}, .partition = {}});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(line)["value"], std::string("\n\r\0\"\\ü\xef\xbf\xbd", 10));
}

class StdoutSinkTest : public testing::Test {
 protected:
  ~StdoutSinkTest() override { std::fclose(file); }
  bool readable() const {
    pollfd one{.fd = sink.event_fd(), .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
  }
  Sink::SendResult send(std::uint64_t ticket) {
    return sink.send({.topic = "t", .key = "k", .value = "{}", .headers = {}, .partition = {}}, Ticket{ticket});
  }

  std::FILE* file = std::tmpfile();
  StdoutSink sink{file};
  DeliveryReports reports;
};

TEST_F(StdoutSinkTest, ReportsEachRecordOnceItIsFlushed) {
  send(1);
  send(2);
  EXPECT_TRUE(readable());
  sink.collect(reports);
  EXPECT_THAT(reports.delivered, ElementsAre(Ticket{1}, Ticket{2}));
  EXPECT_FALSE(readable());
  reports.clear();
  sink.collect(reports);
  EXPECT_THAT(reports.delivered, IsEmpty());
}

TEST_F(StdoutSinkTest, IsFullUntilItsReportsAreCollected) {
  std::uint64_t sent = 0;
  while (send(sent) == Sink::SendResult::accepted) ASSERT_LT(++sent, 100000u);
  sink.collect(reports);
  EXPECT_EQ(reports.delivered.size(), sent);
  EXPECT_EQ(send(sent), Sink::SendResult::accepted);
}

TEST(StdoutSink, AFullDiskBreaksItAndReportsNothing) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  {
    StdoutSink sink(full);
    sink.send({.topic = "t", .key = "k", .value = "{}", .headers = {}, .partition = {}}, Ticket{1});
    DeliveryReports reports;
    EXPECT_THROW(sink.collect(reports), SinkBroken);
    EXPECT_THAT(reports.delivered, IsEmpty());
  }
  std::fclose(full);
}

}  // namespace
}  // namespace outbox
