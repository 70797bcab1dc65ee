// Claims about which relation is an outbox table and which column is what.
#include "cdc/outbox_decoder.h"

#include "tests/relay_fixture.h"

namespace outbox {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OutboxDecoderTest : public testing::Test {
 protected:
  static pgoutput::Relation relation(pgoutput::Oid oid, std::string name, std::vector<std::string> columns) {
    return {.oid = oid, .schema = "public", .name = std::move(name), .columns = std::move(columns)};
  }

  // The text of a mapped name in a row of that relation.
  std::string value(pgoutput::Oid oid, const std::vector<std::string>& row, std::string_view name) {
    std::vector<pgoutput::TupleValue> values;
    for (const auto& text : row) values.push_back({.state = pgoutput::TupleValue::State::text, .text = text});
    const auto event = decoder.decode({.relation = oid, .values = values});
    return std::string(event.values[event.table->require(name, "the test")].text);
  }

  std::vector<OutboxConfig> outbox = outbox_of(
      "outbox:\n"
      "  - table: {name: outbox_events}\n"
      "  - table: {schema: shop, name: other}\n"
      "    columns: {payload: body}\n");
  OutboxDecoder decoder{outbox};
};

TEST_F(OutboxDecoderTest, FindsColumnsByNameWhateverTheirOrder) {
  decoder.learn(relation(1, "outbox_events", {"id", "payload"}));
  EXPECT_EQ(value(1, {"e1", "{}"}, "payload"), "{}");
  decoder.learn(relation(1, "outbox_events", {"payload", "extra", "id"}));
  EXPECT_EQ(value(1, {"{}", "x", "e1"}, "id"), "e1");
  EXPECT_EQ(value(1, {"{}", "x", "e1"}, "payload"), "{}");
}

TEST_F(OutboxDecoderTest, FindsAColumnThatIsNamedOtherwise) {
  decoder.learn({.oid = 2, .schema = "shop", .name = "other", .columns = {"payload", "body"}});
  EXPECT_EQ(value(2, {"not this", "{}"}, "payload"), "{}");
}

TEST_F(OutboxDecoderTest, NamesTableAndColumnWhereARequiredOneIsMissing) {
  decoder.learn(relation(1, "outbox_events", {"id", "body"}));
  const auto text = [&] {
    try {
      return value(1, {"e1", "{}"}, "payload");
    } catch (const HaltError& error) {
      return std::string(error.what());
    }
  }();
  EXPECT_THAT(text, AllOf(HasSubstr("table public.outbox_events has no column \"payload\", which the test needs"),
                          HasSubstr("id, body"), HasSubstr("outbox[].columns")));
}

TEST_F(OutboxDecoderTest, ATableDroppedAndMadeAgainIsKnownByItsName) {
  decoder.restart({{1, 0}});
  decoder.learn(relation(99, "outbox_events", {"payload"}));
  EXPECT_EQ(value(99, {"{}"}, "payload"), "{}");
}

TEST_F(OutboxDecoderTest, ARenamedTableIsKnownByItsOid) {
  decoder.restart({{1, 0}});
  ASSERT_NE(decoder.learn(relation(1, "outbox_events_old", {"payload"})), nullptr);
  EXPECT_EQ(value(1, {"{}"}, "payload"), "{}");
}

TEST_F(OutboxDecoderTest, ARenamedTableFlowsOnInTheNextStream) {
  decoder.restart({{1, 0}});
  decoder.restart({});
  EXPECT_NE(decoder.learn(relation(1, "outbox_events_old", {"payload"})), nullptr);
}

TEST_F(OutboxDecoderTest, ALeafOfAPartitionedTableBringsItsOwnColumnOrder) {
  decoder.restart({{10, 0}, {11, 0}});
  decoder.learn(relation(10, "outbox_2026_01", {"id", "payload"}));
  decoder.learn(relation(11, "outbox_2026_02", {"payload", "id"}));
  EXPECT_EQ(value(10, {"e1", "{}"}, "payload"), "{}");
  EXPECT_EQ(value(11, {"[]", "e2"}, "payload"), "[]");
}

TEST_F(OutboxDecoderTest, ATableOfTheSameNameInAnotherSchemaIsNotOurs) {
  EXPECT_EQ(decoder.learn({.oid = 5, .schema = "other", .name = "outbox_events", .columns = {"payload"}}), nullptr);
  EXPECT_THROW(value(5, {"{}"}, "payload"), UnknownRelation);
}

TEST_F(OutboxDecoderTest, ANewStreamForgetsEveryDescription) {
  decoder.learn(relation(1, "outbox_events", {"payload"}));
  decoder.restart({});
  EXPECT_THROW(value(1, {"{}"}, "payload"), ProtocolError);
}

TEST_F(OutboxDecoderTest, ARowThatDoesNotFitItsRelationIsAProtocolError) {
  decoder.learn(relation(1, "outbox_events", {"id", "payload"}));
  EXPECT_THROW(value(1, {"{}"}, "payload"), ProtocolError);
}

}  // namespace
}  // namespace outbox
