// Claims about what the Kafka sink makes of each error code that a broker may answer with (F11).
#include "tests/mock_kafka.h"

namespace outbox {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

enum class Outcome { delivered, failed, broken };

class KafkaErrors : public MockKafkaTest {
 protected:
  // What becomes of one record whose first produce request is answered with `code`.
  Outcome outcome_of(rd_kafka_resp_err_t code) {
    const auto sink = make_sink();
    DeliveryReports reports;
    fail_next_produce(code);
    sink->send({.topic = "t", .key = "k", .value = "{}", .headers = {}, .partition = 0}, Ticket{0});
    try {
      collect(*sink, reports, 1);
    } catch (const SinkBroken&) {
      EXPECT_THAT(reports.delivered, IsEmpty());
      return Outcome::broken;
    }
    return reports.delivered.empty() ? Outcome::failed : Outcome::delivered;
  }

  static std::vector<rd_kafka_resp_err_t> broker_codes() {
    const rd_kafka_err_desc* descriptions = nullptr;
    std::size_t count = 0;
    rd_kafka_get_err_descs(&descriptions, &count);
    std::vector<rd_kafka_resp_err_t> codes;
    for (std::size_t index = 0; index < count; ++index) {
      if (descriptions[index].desc != nullptr && descriptions[index].code > 0)
        codes.push_back(descriptions[index].code);
    }
    return codes;
  }
};

TEST_F(KafkaErrors, NoCodeEverCountsAsDeliveredWhatIsNotInTheLog) {
  const auto codes = broker_codes();
  ASSERT_GT(codes.size(), 90u);
  std::int64_t in_log = end_offset("t");
  int failed = 0;
  for (const auto code : codes) {
    // The broker says that it has the record already, which the mock cluster has not.
    if (code == RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER) continue;
    const auto outcome = outcome_of(code);
    const auto end = end_offset("t");
    if (outcome == Outcome::delivered) {
      EXPECT_EQ(end, in_log + 1) << rd_kafka_err2name(code);
    } else {
      ++failed;
    }
    in_log = end;
  }
  EXPECT_GT(failed, 10);
}

TEST_F(KafkaErrors, APermanentRefusalIsAFailedReport) {
  for (const auto code : {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
                          RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION}) {
    EXPECT_EQ(outcome_of(code), Outcome::failed) << rd_kafka_err2name(code);
  }
}

TEST_F(KafkaErrors, WhatPassesIsTriedAgainUntilItIsDelivered) {
  for (const auto code : {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                          RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
                          RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE}) {
    EXPECT_EQ(outcome_of(code), Outcome::delivered) << rd_kafka_err2name(code);
  }
}

// F6: the producer cannot go on; the relay makes another. Halting would wait for a person in vain.
TEST_F(KafkaErrors, AFatalErrorBreaksTheSinkAndFailsNoRecord) {
  const auto sink = make_sink();
  DeliveryReports reports;
  fail_next_produce(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
  sink->send({.topic = "t", .key = "k", .value = "{}", .headers = {}, .partition = 0}, Ticket{0});
  EXPECT_THROW(collect(*sink, reports, 1), SinkBroken);
  EXPECT_THAT(reports.failed, IsEmpty());
  EXPECT_THAT(reports.delivered, IsEmpty());
  const Record next{.topic = "t", .key = "k", .value = "{}", .headers = {}, .partition = 0};
  EXPECT_THROW(sink->send(next, Ticket{1}), SinkBroken);
  EXPECT_THAT(reports.failed, IsEmpty());
}

TEST_F(KafkaErrors, EveryRemedySaysWhatToDoAndNamesTheTopic) {
  EXPECT_NE(remedy_for(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, "orders").find("--topic orders"), std::string::npos);
  EXPECT_NE(remedy_for(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "orders").find("--topic orders"),
            std::string::npos);
  for (const auto code : broker_codes()) EXPECT_NE(remedy_for(code, "orders"), "") << rd_kafka_err2name(code);
}

}  // namespace
}  // namespace outbox
