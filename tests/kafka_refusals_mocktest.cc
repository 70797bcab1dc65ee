// Claims about refusals for good: whom they blame, what still leaves after one, and when a sink asks to be replaced.
#include <fstream>

#include "tests/mock_kafka.h"

namespace outbox {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class KafkaRefusals : public MockKafkaTest {
 protected:
  static Record record_of(std::string_view value) {
    return {.topic = "t", .key = "k", .value = value, .headers = {}, .partition = 0};
  }

  // What collect() throws before `count` reports are in; nothing where it does not.
  std::optional<std::string> replacement_reason(KafkaSink& sink, DeliveryReports& reports, std::size_t count) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    try {
      while (reports.delivered.size() + reports.failed.size() + reports.given_up.size() < count &&
             Clock::now() < deadline) {
        wait_for(sink);
        sink.collect(reports);
      }
    } catch (const SinkOutdated& outdated) {
      return outdated.reason();
    }
    return std::nullopt;
  }
};

TEST_F(KafkaRefusals, EachCodeHasItsClassAndWhatIsNotKnownHasNone) {
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE), FailureClass::too_large);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE), FailureClass::too_large);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION), FailureClass::invalid_topic);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC), FailureClass::unknown_topic);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART), FailureClass::unknown_topic);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION), FailureClass::invalid_record);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED), FailureClass::unauthorized);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED), FailureClass::unauthorized);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_INVALID_RECORD), FailureClass::invalid_record);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP), FailureClass::invalid_record);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_POLICY_VIOLATION), FailureClass::other);
  EXPECT_EQ(failure_class_of(RD_KAFKA_RESP_ERR_UNKNOWN), FailureClass::other);
}

TEST_F(KafkaRefusals, ARecordThatTravelledAloneIsTheOneThatIsTooLarge) {
  const auto sink = make_sink({{"batch.size", "1000"}});
  DeliveryReports reports;
  fail_next_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  sink->send(record_of(std::string(2000, 'x')), Ticket{0});
  EXPECT_EQ(replacement_reason(*sink, reports, 1), std::nullopt);
  ASSERT_THAT(reports.failed, SizeIs(1));
  EXPECT_EQ(reports.failed[0].failure_class, FailureClass::too_large);
}

TEST_F(KafkaRefusals, NoRecordIsBlamedForABatchThatIsTooLargeAndTheNextSinkSendsSmallerOnes) {
  const auto memory = std::make_shared<KafkaMemory>();
  DeliveryReports reports;
  auto sink = make_sink({}, memory);
  fail_next_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  for (std::uint64_t ticket = 0; ticket < 5; ++ticket) sink->send(record_of("{}"), Ticket{ticket});
  EXPECT_EQ(replacement_reason(*sink, reports, 100), "batch_size");
  EXPECT_THAT(reports.failed, IsEmpty());
  EXPECT_THAT(reports.given_up, SizeIs(Ge(1u)));
  EXPECT_EQ(memory->batch_bytes, 262144 / 4);

  sink = make_sink({}, memory);
  fail_next_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  sink->send(record_of(std::string(100'000, 'x')), Ticket{10});
  DeliveryReports second;
  EXPECT_EQ(replacement_reason(*sink, second, 1), std::nullopt) << "larger than a batch: it travelled alone";
  ASSERT_THAT(second.failed, SizeIs(1));
}

TEST_F(KafkaRefusals, OneRejectedRecordIsFoundByASinkThatSendsOneByOne) {
  const auto memory = std::make_shared<KafkaMemory>();
  DeliveryReports reports;
  auto sink = make_sink({}, memory);
  fail_next_produce(RD_KAFKA_RESP_ERR_INVALID_RECORD);
  sink->send(record_of("{}"), Ticket{0});
  EXPECT_EQ(replacement_reason(*sink, reports, 100), "batch_size");
  EXPECT_THAT(reports.failed, IsEmpty());

  sink = make_sink({}, memory);
  fail_next_produce(RD_KAFKA_RESP_ERR_INVALID_RECORD);
  sink->send(record_of("{}"), Ticket{1});
  DeliveryReports second;
  EXPECT_EQ(replacement_reason(*sink, second, 1), std::nullopt);
  ASSERT_THAT(second.failed, SizeIs(1));
  EXPECT_EQ(second.failed[0].failure_class, FailureClass::invalid_record);
  EXPECT_FALSE(memory->one_by_one) << "the sink after that one sends batches again";
  EXPECT_EQ(memory->batch_bytes, std::nullopt);
}

TEST_F(KafkaRefusals, NothingBehindARefusedRecordLeaves) {
  const auto sink = make_sink({{"batch.num.messages", "1"}, {"batch.size", "1"}});
  DeliveryReports reports;
  set_round_trip(std::chrono::milliseconds(200));
  fail_next_produce(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  constexpr std::uint64_t count = 200;
  for (std::uint64_t ticket = 0; ticket < count; ++ticket) sink->send(record_of("{}"), Ticket{ticket});
  EXPECT_EQ(replacement_reason(*sink, reports, count), std::nullopt);
  constexpr std::size_t most_on_their_way = 5;  // librdkafka's bound of requests in flight.
  EXPECT_THAT(reports.delivered, SizeIs(testing::Le(most_on_their_way)));
  EXPECT_EQ(reports.delivered.size() + reports.failed.size() + reports.given_up.size(), count)
      << "each is reported once, so that what was delivered is known";
}

// F6, row 68: what was not reported is sent again by the next producer, and keeps its order.
TEST_F(KafkaRefusals, AfterAFatalErrorTheNextSinkSendsTheRestInOrder) {
  DeliveryReports reports;
  auto sink = make_sink();
  sink->send(record_of("1"), Ticket{1});
  collect(*sink, reports, 1);
  fail_next_produce(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
  sink->send(record_of("2"), Ticket{2});
  EXPECT_THROW(collect(*sink, reports, 2), SinkBroken);
  sink = make_sink();
  sink->send(record_of("2"), Ticket{3});
  sink->send(record_of("3"), Ticket{4});
  collect(*sink, reports, 3);
  EXPECT_THAT(consume("t", 3), testing::ElementsAre("@0['k']='1'", "@0['k']='2'", "@0['k']='3'"));
}

TEST_F(KafkaRefusals, ASinkIsOutdatedOnceItsFailedSecretHasChangedInItsFile) {
  const auto path = testing::TempDir() + "secret";
  const auto write = [&](const std::string& text) {
    std::ofstream(path) << text;
    chmod(path.c_str(), 0600);
  };
  write("old");
  KafkaConfig config{.brokers = {"k:1"}, .properties = {{"sasl.password", "stale", {}, path}}};
  EXPECT_EQ(with_current_secrets(config).properties[0].value, "old");
  SecretsWatch watch(config);
  EXPECT_FALSE(watch.changed_since_failure());
  write("new");
  EXPECT_FALSE(watch.changed_since_failure()) << "it works: nobody looks";
  watch.failed();
  EXPECT_TRUE(watch.changed_since_failure());
  remove(path.c_str());
  EXPECT_EQ(with_current_secrets(config).properties[0].value, "stale") << "in the middle of a rotation";
}

}  // namespace
}  // namespace outbox
