// The messages of PostgreSQL's pgoutput plugin, proto_version 1.
//
// Source: PostgreSQL documentation, "Logical Replication Message Formats". Without protocol streaming a
// transaction arrives whole, in commit order, after it has committed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cdc/lsn.h"
#include "cdc/replication_protocol.h"

namespace outbox::pgoutput {

using Oid = std::uint32_t;

// 'B': final_lsn u64, commit_time i64, xid u32. final_lsn is the commit_lsn that the Commit will carry.
struct Begin {
  Lsn final_lsn;
  WallTime commit_time;
  std::uint32_t xid = 0;
};

// 'C': flags u8, commit_lsn u64, end_lsn u64, commit_time i64. Confirm end_lsn, one past the commit record.
struct Commit {
  Lsn commit_lsn;
  Lsn end_lsn;
};

// 'R': oid u32, schema, name, replica_identity u8, count u16, count × (flags u8, name, type u32, typmod i32).
struct Relation {
  Oid oid = 0;
  std::string schema;
  std::string name;
  std::vector<std::string> columns;
};

// One column of a row: two states, so that NULL is never an empty string.
struct TupleValue {
  enum class State : std::uint8_t { null, text };
  State state = State::null;
  std::string_view text;  // Points into the message.

  bool is_null() const { return state == State::null; }
};

// 'I': oid u32, 'N', TupleData: count u16, count × ('n' | 't' length u32 bytes). A value that is left out because it
// did not change ('u') belongs to updates; taken for text it would empty a payload.
struct Insert {
  Oid relation = 0;
  std::span<const TupleValue> values;  // Valid until the decoder is used again.
};

// A message that carries no event: update, delete, truncate, type, origin, logical message.
struct Skipped {
  char tag = 0;
};

using Message = std::variant<Begin, Commit, Relation, Insert, Skipped>;

class Decoder {
 public:
  // Decodes one whole message. Throws ProtocolError where it is cut short, has bytes left over, or is none that
  // proto_version 1 may send.
  Message decode(std::string_view message);

 private:
  Insert decode_insert(std::string_view body);

  std::vector<TupleValue> values_;  // Reused, so that an insert allocates nothing.
};

}  // namespace outbox::pgoutput
