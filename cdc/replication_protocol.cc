#include "cdc/replication_protocol.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdc/byte_reader.h"
#include "cdc/errors.h"

namespace outbox {

namespace {

constexpr WallTime postgres_epoch{std::chrono::sys_days{std::chrono::January / 1 / 2000}};

void append_u64(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

}  // namespace

WallTime from_postgres_time(std::int64_t microseconds) {
  constexpr std::int64_t most = std::chrono::microseconds(std::chrono::years(100'000)).count();
  return postgres_epoch + std::chrono::microseconds(std::clamp(microseconds, -most, most));
}

std::int64_t to_postgres_time(WallTime time) { return (time - postgres_epoch).count(); }

ServerFrame decode_frame(std::string_view copy_data) {
  if (copy_data.empty()) throw ProtocolError("empty CopyData message from PostgreSQL");
  const char tag = copy_data.front();
  copy_data.remove_prefix(1);
  if (tag == 'w') {
    ByteReader reader(copy_data, "XLogData");
    const Lsn wal_start{reader.u64()};
    const Lsn wal_end{reader.u64()};
    reader.i64();
    return XLogData{.wal_start = wal_start, .wal_end = wal_end, .payload = reader.rest()};
  }
  if (tag == 'k') {
    ByteReader reader(copy_data, "Primary keepalive");
    const Lsn wal_end{reader.u64()};
    reader.i64();
    const bool reply_requested = reader.u8() != 0;
    reader.expect_end();
    return PrimaryKeepalive{.wal_end = wal_end, .reply_requested = reply_requested};
  }
  throw ProtocolError(
      fmt::format("unknown replication frame 0x{:02x} from PostgreSQL", static_cast<unsigned char>(tag)));
}

std::string encode(const StandbyStatusUpdate& update, WallTime now) {
  std::string out;
  out.reserve(34);
  out.push_back('r');
  append_u64(out, update.written.value);
  append_u64(out, update.flushed.value);
  append_u64(out, update.applied.value);
  append_u64(out, static_cast<std::uint64_t>(to_postgres_time(now)));
  out.push_back(update.reply_requested ? 1 : 0);
  return out;
}

}  // namespace outbox
