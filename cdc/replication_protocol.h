// The frames of PostgreSQL's streaming replication protocol, inside CopyData.
//
// Source: PostgreSQL documentation, "Streaming Replication Protocol". Times on the wire are microseconds since
// 2000-01-01; here they are std::chrono.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <variant>

#include "cdc/lsn.h"

namespace outbox {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

// From the wire's microseconds since 2000-01-01, and back. A time beyond the calendar, which no commit has, becomes its
// end, so that two times can always be subtracted.
WallTime from_postgres_time(std::int64_t microseconds);
std::int64_t to_postgres_time(WallTime time);

// 'w': wal_start u64, wal_end u64, send_time i64, then one pgoutput message.
struct XLogData {
  Lsn wal_start;
  Lsn wal_end;
  std::string_view payload;  // Points into the frame.
};

// 'k': wal_end u64, send_time i64, reply_requested u8. Everything before wal_end has been sent.
struct PrimaryKeepalive {
  Lsn wal_end;
  bool reply_requested = false;
};

using ServerFrame = std::variant<XLogData, PrimaryKeepalive>;

// Throws ProtocolError for anything else.
ServerFrame decode_frame(std::string_view copy_data);

// 'r': written u64, flushed u64, applied u64, time i64, reply_requested u8.
// `flushed` is the only position a logical slot acts on; zero leaves the slot where it is.
struct StandbyStatusUpdate {
  Lsn written;
  Lsn flushed;
  Lsn applied;
  bool reply_requested = false;
};

std::string encode(const StandbyStatusUpdate& update, WallTime now);

}  // namespace outbox
