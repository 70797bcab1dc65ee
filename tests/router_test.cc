// Claims about the record that becomes of an event: its topic, key, partition, headers and value.
#include "cdc/router.h"

#include "tests/relay_fixture.h"

namespace outbox {
namespace {

using testing::HasSubstr;

constexpr pgoutput::Oid oid = 16384;

// One outbox entry with these lines in its `defaults`, and rows of its table.
class Routing {
 public:
  explicit Routing(const std::string& defaults,
                   std::vector<std::string> columns = {"id", "aggregate_type", "aggregate_id", "event_type", "payload"})
      : outbox_(outbox_of("defaults: {" + defaults + "}\n")),
        table_(outbox_[0], {.oid = oid, .schema = "public", .name = "outbox_events", .columns = std::move(columns)}) {}

  // The record as text, or what is said instead.
  std::string of(const std::vector<wire::Value>& row) {
    std::vector<pgoutput::TupleValue> values;
    for (const auto& value : row) {
      values.push_back(value ? pgoutput::TupleValue{.state = pgoutput::TupleValue::State::text, .text = *value}
                             : pgoutput::TupleValue{});
    }
    try {
      return shown(router.route({.relation = oid, .table = &table_, .values = values}, 0));
    } catch (const HaltError& error) {
      return std::string("halt: ") + error.what();
    }
  }
  std::string of_topic(const wire::Value& type) { return of({"e1", type, "k", "placed", "{}"}); }

  Router router;

 private:
  std::vector<OutboxConfig> outbox_;
  OutboxTable table_;
};

const std::string route = "route: {topic: '${aggregate_type}', key: '${aggregate_id}', headers: {}}";

TEST(Router, BuildsTheBuiltInRoute) {
  EXPECT_EQ(Routing("route: {}").of({"e1", "orders", "order-7", "placed", "{}"}),
            "outbox.event.orders[order-7]{id:e1}{event_type:placed}={}");
}

TEST(Router, FillsTemplatesFromMappedNamesAndFromColumns) {
  Routing routing(
      "columns: {payload: body}, route: {topic: 'a.${aggregate_type}.b', key: '${tenant}-${aggregate_id}', "
      "headers: {who: 'tenant ${tenant}', fixed: always}}",
      {"body", "tenant", "aggregate_id", "aggregate_type"});
  EXPECT_EQ(routing.of({"{}", "t1", "7", "orders"}), "a.orders.b[t1-7]{who:tenant t1}{fixed:always}={}");
}

TEST(Router, ANullHeaderColumnLeavesThatHeaderOutAndNoOther) {
  EXPECT_EQ(Routing("route: {}").of({"e1", "orders", "order-7", std::nullopt, "{}"}),
            "outbox.event.orders[order-7]{id:e1}={}");
  EXPECT_EQ(Routing("route: {}").of({std::nullopt, "orders", "order-7", "", "{}"}),
            "outbox.event.orders[order-7]{event_type:}={}");
}

TEST(Router, KeepsEmptyTextApartFromNull) {
  EXPECT_EQ(Routing(route).of({"e1", "orders", "", "placed", ""}), "orders[]=");
}

TEST(Router, ANullKeyHaltsByDefault) {
  EXPECT_THAT(Routing(route).of({"e1", "orders", std::nullopt, "placed", "{}"}),
              HasSubstr("halt: its key needs column \"aggregate_id\", which is NULL. Set on_null.key: send"));
}

TEST(Router, ANullKeyIsSentAndCountedWhereThatIsAllowed) {
  Routing routing(route + ", on_null: {key: send}");
  EXPECT_EQ(routing.of({"e1", "orders", std::nullopt, "placed", "{}"}), "orders[NULL]={}");
  EXPECT_EQ(routing.of({"e1", "orders", "order-7", "placed", "{}"}), "orders[order-7]={}");
  EXPECT_EQ(routing.router.counts().null_keys, 1u);
}

TEST(Router, ANullPayloadIsATombstoneByDefault) {
  EXPECT_EQ(Routing(route).of({"e1", "orders", "order-7", "placed", std::nullopt}), "orders[order-7]=NULL");
}

TEST(Router, ANullPayloadIsEmptyOrHaltsWhereThatIsSaid) {
  EXPECT_EQ(Routing(route + ", on_null: {payload: empty}").of({"e1", "o", "k", "placed", std::nullopt}), "o[k]=");
  EXPECT_THAT(Routing(route + ", on_null: {payload: halt}").of({"e1", "o", "k", "placed", std::nullopt}),
              HasSubstr("halt: its payload is NULL"));
}

TEST(Router, APartitionTemplateNamesThePartition) {
  Routing routing("route: {topic: t, key: '${aggregate_id}', partition: '${shard}', headers: {}}",
                  {"aggregate_id", "payload", "shard"});
  EXPECT_EQ(routing.of({"k", "{}", "3"}), "t@3[k]={}");
  EXPECT_EQ(routing.of({"k", "{}", "2147483647"}), "t@2147483647[k]={}");
  EXPECT_EQ(routing.of({"k", "{}", std::nullopt}), "t[k]={}");
  for (const char* bad : {"-1", "", "x", "3x", " 3", "2147483648", "1.0"}) {
    EXPECT_THAT(routing.of({"k", "{}", bad}), HasSubstr("is not a number from 0 up")) << bad;
  }
}

TEST(Router, ARecordInheritsNothingFromTheOneBefore) {
  Routing routing(
      "route: {topic: t, key: '${aggregate_id}', partition: '${shard}', headers: {h: '${h}'}}, "
      "on_null: {key: send}",
      {"aggregate_id", "payload", "shard", "h"});
  EXPECT_EQ(routing.of({"k", "{}", "3", "x"}), "t@3[k]{h:x}={}");
  EXPECT_EQ(routing.of({std::nullopt, std::nullopt, std::nullopt, std::nullopt}), "t[NULL]=NULL");
}

TEST(Router, KeepsTheCaseOfATopicAndTellsDotFromUnderscore) {
  EXPECT_EQ(Routing(route).of_topic("Orders"), "Orders[k]={}");
  EXPECT_EQ(Routing(route).of_topic("a.b"), "a.b[k]={}");
  EXPECT_EQ(Routing(route).of_topic("a_b"), "a_b[k]={}");
  EXPECT_EQ(Routing(route).of_topic(std::string(249, 'x')), std::string(249, 'x') + "[k]={}");
}

TEST(Router, HaltsBeforeTheBrokerSeesATopicThatKafkaDoesNotTake) {
  for (const std::string bad : {"bestellung ü", "a b", "", "..", ".", "a/b", "a\nb"}) {
    EXPECT_THAT(Routing(route).of_topic(bad), HasSubstr("halt: its topic \"" + bad + "\" is no name that Kafka takes"));
  }
  EXPECT_THAT(Routing(route).of_topic(std::string(250, 'x')), HasSubstr("longer than 249"));
  EXPECT_THAT(Routing(route).of_topic(std::nullopt), HasSubstr("halt: its topic needs column \"aggregate_type\""));
}

TEST(Router, AGoodTopicDoesNotExcuseTheNextBadOne) {
  Routing routing(route);
  EXPECT_EQ(routing.of_topic("good"), "good[k]={}");
  EXPECT_THAT(routing.of_topic("bad one"), HasSubstr("halt: "));
  EXPECT_EQ(routing.of_topic("good"), "good[k]={}");
  EXPECT_THAT(routing.of_topic("bad one"), HasSubstr("halt: "));
}

TEST(Router, AMissingColumnIsNamedWithWhatNeedsIt) {
  EXPECT_THAT(Routing(route, {"aggregate_type", "payload"}).of({"orders", "{}"}),
              HasSubstr("has no column \"aggregate_id\", which the key needs"));
  EXPECT_THAT(Routing(route, {"aggregate_type", "aggregate_id"}).of({"orders", "k"}),
              HasSubstr("has no column \"payload\", which the value needs"));
  EXPECT_THAT(Routing("route: {}", {"aggregate_type", "aggregate_id", "payload", "id"}).of({"o", "k", "{}", "1"}),
              HasSubstr("has no column \"event_type\", which header \"event_type\" needs"));
}

TEST(Router, KeepsEveryByteOfKeyHeaderAndValue) {
  const std::string odd = "\"quo'tes\" \n\t\x01 ü 🎉 {}$${";
  EXPECT_EQ(Routing("route: {topic: t, headers: {h: '${id}'}}").of({odd, "orders", odd, "placed", odd}),
            "t[" + odd + "]{h:" + odd + "}=" + odd);
}

TEST(Router, ATenKilobyteKeyPasses) {
  const std::string key(10240, 'k');
  EXPECT_EQ(Routing(route).of({"e1", "orders", key, "placed", "{}"}), "orders[" + key + "]={}");
}

}  // namespace
}  // namespace outbox
