#include "cdc/pgoutput.h"

#include <fmt/format.h>

#include "cdc/byte_reader.h"
#include "cdc/errors.h"

namespace outbox::pgoutput {

namespace {

Begin decode_begin(std::string_view body) {
  ByteReader reader(body, "Begin");
  Begin begin;
  begin.final_lsn = Lsn{reader.u64()};
  begin.commit_time = from_postgres_time(reader.i64());
  begin.xid = reader.u32();
  reader.expect_end();
  return begin;
}

Commit decode_commit(std::string_view body) {
  ByteReader reader(body, "Commit");
  Commit commit;
  reader.u8();
  commit.commit_lsn = Lsn{reader.u64()};
  commit.end_lsn = Lsn{reader.u64()};
  reader.i64();
  reader.expect_end();
  return commit;
}

Relation decode_relation(std::string_view body) {
  ByteReader reader(body, "Relation");
  Relation relation;
  relation.oid = reader.u32();
  relation.schema = reader.string();
  relation.name = reader.string();
  reader.u8();
  const auto count = reader.u16();
  relation.columns.reserve(count);
  for (unsigned column = 0; column < count; ++column) {
    reader.u8();
    relation.columns.emplace_back(reader.string());
    reader.u32();
    reader.u32();
  }
  reader.expect_end();
  // The protocol sends the empty string for pg_catalog.
  if (relation.schema.empty()) relation.schema = "pg_catalog";
  return relation;
}

TupleValue decode_value(ByteReader& reader) {
  const char kind = static_cast<char>(reader.u8());
  switch (kind) {
    case 'n':
      return {.state = TupleValue::State::null, .text = {}};
    case 't':
      return {.state = TupleValue::State::text, .text = reader.bytes(reader.u32())};
    default:
      throw ProtocolError(fmt::format("Insert message from PostgreSQL has a column of unknown kind 0x{:02x}",
                                      static_cast<unsigned char>(kind)));
  }
}

void pass_tuple(ByteReader& reader) {
  for (unsigned left = reader.u16(); left > 0; --left) {
    const char kind = static_cast<char>(reader.u8());
    if (kind == 'n' || kind == 'u') continue;
    if (kind != 't' && kind != 'b') throw ProtocolError("a row from PostgreSQL has a column of unknown kind");
    reader.bytes(reader.u32());
  }
}

void pass_update_or_delete(ByteReader& reader, char tag) {
  reader.u32();  // Relation.
  auto kind = reader.u8();
  if (kind == 'K' || kind == 'O') {
    pass_tuple(reader);
    if (tag == 'D') return;
    kind = reader.u8();
  }
  if (tag == 'D' || kind != 'N') throw ProtocolError("a changed row from PostgreSQL is neither an old nor a new one");
  pass_tuple(reader);
}

// A message that carries no event. It is read all the same: an Insert whose tag was garbled on the way must not pass
// for one.
Skipped pass(char tag, std::string_view body) {
  ByteReader reader(body, "skipped");
  switch (tag) {
    case 'U':
    case 'D':
      pass_update_or_delete(reader, tag);
      break;
    case 'T': {
      const auto relations = reader.u32();
      reader.u8();
      for (std::uint32_t left = relations; left > 0; --left) reader.u32();
      break;
    }
    case 'Y':
      reader.u32();
      reader.string();
      reader.string();
      break;
    case 'O':
      reader.u64();
      reader.string();
      break;
    default:  // M
      reader.u8();
      reader.u64();
      reader.string();
      reader.bytes(reader.u32());
  }
  reader.expect_end();
  return {.tag = tag};
}

// What the tag means where it is no part of proto_version 1 without streaming; null for no message at all.
const char* name_of_unasked(char tag) {
  switch (tag) {
    case 'S':
      return "Stream Start";
    case 'E':
      return "Stream Stop";
    case 'c':
      return "Stream Commit";
    case 'A':
      return "Stream Abort";
    case 'b':
      return "Begin Prepare";
    case 'P':
      return "Prepare";
    case 'K':
      return "Commit Prepared";
    case 'r':
      return "Rollback Prepared";
    case 'p':
      return "Stream Prepare";
    default:
      return nullptr;
  }
}

[[noreturn]] void fail_unknown(char tag) {
  if (const char* name = name_of_unasked(tag)) {
    throw ProtocolError(
        fmt::format("pgoutput message {} ('{}') arrived, which proto_version 1 does not send", name, tag));
  }
  throw ProtocolError(fmt::format("unknown pgoutput message 0x{:02x}", static_cast<unsigned char>(tag)));
}

}  // namespace

Insert Decoder::decode_insert(std::string_view body) {
  ByteReader reader(body, "Insert");
  const Oid oid = reader.u32();
  if (const auto kind = reader.u8(); kind != 'N') {
    throw ProtocolError(fmt::format("Insert message from PostgreSQL has no new row but 0x{:02x}", kind));
  }
  const auto count = reader.u16();
  values_.clear();
  for (unsigned column = 0; column < count; ++column) values_.push_back(decode_value(reader));
  reader.expect_end();
  return {.relation = oid, .values = values_};
}

Message Decoder::decode(std::string_view message) {
  if (message.empty()) throw ProtocolError("empty pgoutput message from PostgreSQL");
  const char tag = message.front();
  const auto body = message.substr(1);
  switch (tag) {
    case 'I':
      return decode_insert(body);
    case 'B':
      return decode_begin(body);
    case 'C':
      return decode_commit(body);
    case 'R':
      return decode_relation(body);
    case 'U':
    case 'D':
    case 'T':
    case 'Y':
    case 'O':
    case 'M':
      return pass(tag, body);
    default:
      fail_unknown(tag);
  }
}

}  // namespace outbox::pgoutput
