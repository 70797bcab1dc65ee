// Claims about the Kafka sink's contract: what arrives, back-pressure, one report a record, a prompt end.
#include "sinks/kafka_sink.h"
#include "tests/mock_kafka.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Record record_of(std::string_view key, std::string_view value) {
  return {.topic = "t", .key = key, .value = value, .headers = {}, .partition = 0};
}

TEST_F(MockKafkaTest, TellsNullKeyAndTombstoneFromEmptyText) {
  const auto sink = make_sink();
  DeliveryReports reports;
  sink->send({.topic = "t", .key = {}, .value = "{}", .headers = {}, .partition = 0}, Ticket{0});
  sink->send({.topic = "t", .key = "k", .value = {}, .headers = {}, .partition = 0}, Ticket{1});
  sink->send({.topic = "t", .key = "", .value = "", .headers = {}, .partition = 0}, Ticket{2});
  sink->send({.topic = "t", .key = std::string_view(), .value = std::string_view(), .headers = {}, .partition = 0},
             Ticket{3});
  collect(*sink, reports, 4);
  EXPECT_THAT(reports.failed, IsEmpty());
  EXPECT_THAT(consume("t", 4), ElementsAre("@0[NULL]='{}'", "@0['k']=NULL", "@0['']=''", "@0['']=''"));
}

TEST_F(MockKafkaTest, CarriesHeadersInOrderAndEveryByte) {
  const auto sink = make_sink();
  DeliveryReports reports;
  const std::string odd("\0\n\"ü", 5);
  sink->send({.topic = "t", .key = odd, .value = odd, .headers = {{"b", "1"}, {"a", odd}, {"e", ""}}, .partition = 3},
             Ticket{0});
  collect(*sink, reports, 1);
  EXPECT_THAT(consume("t", 1), ElementsAre("@3['" + odd + "']{b:1}{a:" + odd + "}{e:}='" + odd + "'"));
}

TEST_F(MockKafkaTest, RecordsOfOneKeyArriveInTheOrderTheyWereSent) {
  const auto sink = make_sink();
  DeliveryReports reports;
  std::vector<std::string> expected;
  for (std::uint64_t count = 0; count < 500; ++count) {
    const auto value = std::to_string(count);
    sink->send({.topic = "t", .key = "order-7", .value = value, .headers = {}, .partition = {}}, Ticket{count});
    expected.push_back("='" + value + "'");
  }
  collect(*sink, reports, 500);
  auto found = consume("t", 500);
  for (auto& each : found) each.erase(0, each.find('='));
  EXPECT_EQ(found, expected);
}

// F8: a queue of 100 and a burst of 10,000.
TEST_F(MockKafkaTest, ABurstBeyondTheQueueIsBackPressureAndEveryRecordIsReportedOnce) {
  const auto sink = make_sink({{"queue.buffering.max.messages", "100"}});
  constexpr std::uint64_t burst = 10000;
  std::vector<int> reported(burst);
  std::uint64_t total = 0;
  int full = 0;
  const auto collect_some = [&] {
    DeliveryReports reports;
    sink->collect(reports);
    EXPECT_THAT(reports.failed, IsEmpty());
    for (const auto ticket : reports.delivered) ++reported.at(to_number(ticket));
    total += reports.delivered.size();
  };
  const auto deadline = Clock::now() + seconds(60);
  for (std::uint64_t ticket = 0; ticket < burst; ++ticket) {
    while (sink->send(record_of("k", "{}"), Ticket{ticket}) == Sink::SendResult::full) {
      ++full;
      wait_for(*sink);
      collect_some();
      ASSERT_LT(Clock::now(), deadline);
    }
  }
  while (total < burst && Clock::now() < deadline) {
    wait_for(*sink);
    collect_some();
  }
  EXPECT_GT(full, 10);
  EXPECT_EQ(reported, std::vector<int>(burst, 1));
}

TEST_F(MockKafkaTest, AnOutageIsBackPressureAndLosesNothing) {
  const auto sink = make_sink(
      {{"queue.buffering.max.messages", "100"}, {"reconnect.backoff.ms", "10"}, {"reconnect.backoff.max.ms", "50"}});
  DeliveryReports reports;
  sink->send(record_of("k", "before"), Ticket{0});
  collect(*sink, reports, 1);
  set_broker_up(false);
  std::uint64_t sent = 1;
  while (sink->send(record_of("k", "{}"), Ticket{sent}) == Sink::SendResult::accepted) ++sent;
  EXPECT_LE(sent, 101u);
  sink->collect(reports);
  EXPECT_THAT(reports.failed, IsEmpty());
  set_broker_up(true);
  collect(*sink, reports, sent);
  EXPECT_THAT(reports.failed, IsEmpty());
  EXPECT_THAT(reports.delivered, SizeIs(sent));
}

TEST_F(MockKafkaTest, ARecordThatIsTooLargeForTheProducerIsRefusedAtOnceAndTheOthersGo) {
  const auto sink = make_sink({{"message.max.bytes", "1000"}});
  DeliveryReports reports;
  const std::string large(5000, 'x');
  EXPECT_EQ(sink->send(record_of("k", "before"), Ticket{6}), Sink::SendResult::accepted);
  EXPECT_EQ(sink->send(record_of("k", large), Ticket{7}), Sink::SendResult::refused);
  const auto refusal = sink->refusal();
  EXPECT_EQ(refusal.ticket, Ticket{7});
  EXPECT_EQ(refusal.topic, "t");
  EXPECT_EQ(refusal.failure_class, FailureClass::too_large);
  EXPECT_THAT(refusal.reason, HasSubstr("MSG_SIZE_TOO_LARGE"));
  EXPECT_THAT(refusal.remedy, HasSubstr("max.message.bytes of topic t"));
  EXPECT_EQ(sink->send(record_of("k", "after"), Ticket{8}), Sink::SendResult::accepted);
  collect(*sink, reports, 2);
  EXPECT_THAT(reports.failed, IsEmpty());
  EXPECT_THAT(reports.delivered, SizeIs(2));
}

TEST_F(MockKafkaTest, ATopicThatIsNotThereFailsAndSaysHowToCreateIt) {
  set_topic_error("missing", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  const auto sink =
      make_sink({{"topic.metadata.propagation.max.ms", "100"}, {"topic.metadata.refresh.fast.interval.ms", "50"}});
  DeliveryReports reports;
  sink->send({.topic = "missing", .key = "k", .value = "{}", .headers = {}, .partition = {}}, Ticket{0});
  collect(*sink, reports, 1);
  ASSERT_THAT(reports.failed, SizeIs(1));
  EXPECT_EQ(reports.failed[0].topic, "missing");
  EXPECT_THAT(reports.failed[0].remedy, HasSubstr("--create --topic missing"));
}

TEST_F(MockKafkaTest, APartitionThatIsNotThereFails) {
  const auto sink = make_sink();
  DeliveryReports reports;
  sink->send({.topic = "t", .key = "k", .value = "{}", .headers = {}, .partition = 99}, Ticket{0});
  collect(*sink, reports, 1);
  ASSERT_THAT(reports.failed, SizeIs(1));
  EXPECT_THAT(reports.failed[0].remedy, HasSubstr("no such partition"));
}

TEST_F(MockKafkaTest, ExpectingATopicDoesNotCostAReport) {
  const auto sink = make_sink();
  DeliveryReports reports;
  sink->expect_topics({"t"});
  sink->send(record_of("k", "{}"), Ticket{0});
  collect(*sink, reports, 1);
  EXPECT_THAT(reports.delivered, ElementsAre(Ticket{0}));
}

TEST_F(MockKafkaTest, DestroyingItWithRecordsInFlightReturnsPromptly) {
  auto sink = make_sink();
  DeliveryReports reports;
  sink->send(record_of("k", "{}"), Ticket{0});
  collect(*sink, reports, 1);
  set_round_trip(milliseconds(60000));
  for (std::uint64_t ticket = 1; ticket < 500; ++ticket) sink->send(record_of("k", "{}"), Ticket{ticket});
  const auto begin = Clock::now();
  sink.reset();
  EXPECT_LT(Clock::now() - begin, seconds(3));
}

TEST_F(MockKafkaTest, DestroyingItWithoutABrokerReturnsPromptly) {
  set_broker_up(false);
  auto sink = make_sink();
  for (std::uint64_t ticket = 0; ticket < 500; ++ticket) sink->send(record_of("k", "{}"), Ticket{ticket});
  const auto begin = Clock::now();
  sink.reset();
  EXPECT_LT(Clock::now() - begin, seconds(3));
}

}  // namespace
}  // namespace outbox
