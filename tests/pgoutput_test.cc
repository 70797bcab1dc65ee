// Claims about pgoutput's messages: each is read whole or refused, whatever the bytes.
#include "cdc/pgoutput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "cdc/errors.h"
#include "tests/wire.h"

namespace outbox::pgoutput {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Oid oid = 16384;

const std::string begin_message = wire::begin(Lsn{0x298}, 42);
const std::string commit_message = wire::commit(Lsn{0x298}, Lsn{0x2A0});
const std::string relation_message = wire::relation(oid, "public", "outbox_events", {"id", "payload"});
const std::string insert_message = wire::insert(oid, {"order-7", std::nullopt, "", "{}"});

std::string refusal(std::string_view message) {
  Decoder decoder;
  try {
    decoder.decode(message);
    return "";
  } catch (const ProtocolError& error) {
    return error.what();
  }
}

std::vector<std::string> shown(const Insert& insert) {
  std::vector<std::string> values;
  for (const auto& value : insert.values)
    values.push_back(value.is_null() ? "NULL" : "'" + std::string(value.text) + "'");
  return values;
}

TEST(Pgoutput, ReadsBegin) {
  const auto begin = std::get<Begin>(Decoder().decode(begin_message));
  EXPECT_EQ(begin.final_lsn, lsn("0/298"));
  EXPECT_EQ(begin.xid, 42u);
  EXPECT_EQ(begin.commit_time, wire::noon);
}

TEST(Pgoutput, ReadsCommit) {
  const auto commit = std::get<Commit>(Decoder().decode(commit_message));
  EXPECT_EQ(commit.commit_lsn, lsn("0/298"));
  EXPECT_EQ(commit.end_lsn, lsn("0/2A0"));
}

TEST(Pgoutput, ReadsRelation) {
  const auto relation = std::get<Relation>(Decoder().decode(relation_message));
  EXPECT_EQ(relation.oid, oid);
  EXPECT_EQ(relation.schema, "public");
  EXPECT_EQ(relation.name, "outbox_events");
  EXPECT_THAT(relation.columns, ElementsAre("id", "payload"));
}

TEST(Pgoutput, ReadsTheEmptySchemaAsPgCatalog) {
  EXPECT_EQ(std::get<Relation>(Decoder().decode(wire::relation(oid, "", "t", {}))).schema, "pg_catalog");
}

TEST(Pgoutput, TellsNullFromTheEmptyString) {
  Decoder decoder;
  const auto message = decoder.decode(insert_message);
  EXPECT_EQ(std::get<Insert>(message).relation, oid);
  EXPECT_THAT(shown(std::get<Insert>(message)), ElementsAre("'order-7'", "NULL", "''", "'{}'"));
}

TEST(Pgoutput, KeepsEveryByteOfAValue) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const auto message = wire::insert(oid, {bytes});
  Decoder decoder;
  EXPECT_EQ(std::get<Insert>(decoder.decode(message)).values[0].text, bytes);
}

TEST(Pgoutput, RefusesEveryTruncationOfEveryMessage) {
  for (const auto& whole : {begin_message, commit_message, relation_message, insert_message}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string prefix(whole, 0, size);  // A buffer of its own, so that a read beyond it is seen.
      EXPECT_NE(refusal(prefix), "") << "the first " << size << " bytes of '" << whole[0] << "'";
    }
    EXPECT_EQ(refusal(whole), "");
  }
}

TEST(Pgoutput, RefusesBytesAfterTheEndAndNamesTheMessage) {
  EXPECT_THAT(refusal(begin_message + "x"), HasSubstr("Begin message from PostgreSQL has 1 bytes after its end"));
  EXPECT_THAT(refusal(commit_message + "xy"), HasSubstr("Commit message from PostgreSQL has 2 bytes"));
  EXPECT_THAT(refusal(relation_message + "x"), HasSubstr("Relation message"));
  EXPECT_THAT(refusal(insert_message + "x"), HasSubstr("Insert message"));
}

TEST(Pgoutput, SkipsEveryMessageThatCarriesNoEvent) {
  for (const auto& message : wire::without_event()) {
    EXPECT_EQ(std::get<Skipped>(Decoder().decode(message)).tag, message[0]) << message;
    EXPECT_THROW(Decoder().decode(message + "x"), ProtocolError) << message;
    EXPECT_THROW(Decoder().decode(message.substr(0, message.size() - 1)), ProtocolError) << message;
  }
}

// One flipped bit of its tag makes an Insert a Type or a Logical Message: passed over, the event would be lost.
TEST(Pgoutput, AnInsertUnderAnotherTagIsNotPassedOver) {
  for (const char tag : {'D', 'T', 'Y', 'O', 'M', 'B', 'C', 'R'}) {
    auto message = insert_message;
    message[0] = tag;
    EXPECT_THROW(Decoder().decode(message), ProtocolError) << tag;
  }
}

TEST(Pgoutput, NamesAMessageThatProtoVersion1DoesNotSend) {
  const std::map<char, std::string> names{
      {'S', "Stream Start"},    {'E', "Stream Stop"},       {'c', "Stream Commit"},
      {'A', "Stream Abort"},    {'b', "Begin Prepare"},     {'P', "Prepare"},
      {'K', "Commit Prepared"}, {'r', "Rollback Prepared"}, {'p', "Stream Prepare"}};
  for (const auto& [tag, name] : names) EXPECT_THAT(refusal(std::string(1, tag)), HasSubstr(name + " ('"));
}

TEST(Pgoutput, RefusesEveryOtherTagAndNamesIt) {
  const std::string known = "IBCRUDTYOMSEcAbPKrp";
  for (int byte = 0; byte < 256; ++byte) {
    const char tag = static_cast<char>(byte);
    if (known.find(tag) != std::string::npos) continue;
    EXPECT_THAT(refusal(std::string(1, tag)), HasSubstr("unknown pgoutput message 0x")) << byte;
  }
  EXPECT_THAT(refusal("z"), HasSubstr("0x7a"));
}

TEST(Pgoutput, RefusesAnInsertWithoutANewRow) {
  auto message = insert_message;
  message[5] = 'K';
  EXPECT_THAT(refusal(message), HasSubstr("no new row but 0x4b"));
}

// Taken for text, a value that is left out would become an empty payload.
TEST(Pgoutput, RefusesAnInsertWithAValueLeftOut) {
  for (const char kind : {'u', 'b', 'x'}) {
    const auto message = "I" + wire::integer(oid, 4) + "N" + wire::integer(1, 2) + kind;
    EXPECT_THAT(refusal(message), HasSubstr("a column of unknown kind 0x"));
  }
}

TEST(Pgoutput, AClaimedLengthBeyondTheMessageIsRefused) {
  const auto message =
      "I" + wire::integer(oid, 4) + "N" + wire::integer(1, 2) + "t" + wire::integer(0xffffffff, 4) + "x";
  EXPECT_THAT(refusal(message), HasSubstr("cut short"));
}

// One captured message a line: its LSN and its bytes in hex; see tests/data/capture_pgoutput.py.
std::vector<std::string> captured(int version) {
  std::ifstream file(std::string(OUTBOX_SOURCE_DIR) + "/tests/data/pgoutput_" + std::to_string(version) + ".hex");
  std::vector<std::string> messages;
  std::string position, hex;
  while (file >> position >> hex) {
    std::string& message = messages.emplace_back();
    for (std::size_t at = 0; at < hex.size(); at += 2)
      message.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  }
  return messages;
}

class CapturedPgoutput : public testing::TestWithParam<int> {};

TEST_P(CapturedPgoutput, EveryEventOfARealServerIsRead) {
  Decoder decoder;
  std::map<Oid, std::string> tables;
  std::map<Oid, std::size_t> widths;
  std::vector<std::string> events;
  Lsn open;
  std::string skipped;
  for (const auto& bytes : captured(GetParam())) {
    const auto message = decoder.decode(bytes);
    if (const auto* relation = std::get_if<Relation>(&message)) {
      tables[relation->oid] = relation->schema + "." + relation->name;
      widths[relation->oid] = relation->columns.size();
    } else if (const auto* begin = std::get_if<Begin>(&message)) {
      open = begin->final_lsn;
    } else if (const auto* commit = std::get_if<Commit>(&message)) {
      EXPECT_EQ(commit->commit_lsn, open);
      EXPECT_GT(commit->end_lsn, commit->commit_lsn);
    } else if (const auto* insert = std::get_if<Insert>(&message)) {
      ASSERT_EQ(insert->values.size(), widths[insert->relation]);
      const auto row = shown(*insert);
      if (tables[insert->relation] == "public.outbox_events") events.push_back(row[2] + " " + row[4]);
    } else {
      skipped += std::get<Skipped>(message).tag;
    }
  }
  EXPECT_THAT(events, ElementsAre(R"('order-7' '{"note": "grüße", "total": 12.50}')", "'' NULL", "'order-8' '[]'",
                                  HasSubstr("'big' '\"01234567890123456789"), "'order-9' 'null'"));
  for (const char tag : std::string("UDYMT")) EXPECT_THAT(skipped, HasSubstr(std::string(1, tag)));
}

TEST_P(CapturedPgoutput, EveryTruncationOfARealMessageIsRefused) {
  std::size_t messages = 0;
  for (const auto& whole : captured(GetParam())) {
    if (std::holds_alternative<Skipped>(Decoder().decode(whole))) continue;
    ++messages;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_NE(refusal(std::string(whole, 0, size)), "") << "the first " << size << " bytes of '" << whole[0] << "'";
    }
  }
  EXPECT_GT(messages, 20u);
}

INSTANTIATE_TEST_SUITE_P(PostgreSQL, CapturedPgoutput, testing::Values(14, 15, 16, 17, 18),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace outbox::pgoutput
