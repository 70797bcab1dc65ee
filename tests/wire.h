// The server's side of the wire for tests: pgoutput messages and the frames that carry them.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cdc/lsn.h"
#include "cdc/pgoutput.h"
#include "cdc/replication_protocol.h"

namespace outbox {

// A position as it is printed: lsn("0/2A0").
inline Lsn lsn(std::string_view text) {
  const auto parsed = parse_lsn(text);
  if (!parsed) throw std::invalid_argument(std::string(text));
  return *parsed;
}

namespace wire {

inline std::string integer(std::uint64_t value, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}

inline std::string text(std::string_view value) { return std::string(value) + '\0'; }

// A moment that every test may share: 2026-01-02 03:04:05 UTC.
inline constexpr WallTime noon{std::chrono::sys_days{std::chrono::January / 2 / 2026} + std::chrono::seconds(11045)};

inline std::string begin(Lsn final_lsn, std::uint32_t xid, WallTime commit_time = noon) {
  return "B" + integer(final_lsn.value, 8) + integer(static_cast<std::uint64_t>(to_postgres_time(commit_time)), 8) +
         integer(xid, 4);
}

inline std::string commit(Lsn commit_lsn, Lsn end_lsn, WallTime commit_time = noon) {
  return "C" + integer(0, 1) + integer(commit_lsn.value, 8) + integer(end_lsn.value, 8) +
         integer(static_cast<std::uint64_t>(to_postgres_time(commit_time)), 8);
}

inline std::string relation(pgoutput::Oid oid, std::string_view schema, std::string_view name,
                            const std::vector<std::string>& columns) {
  constexpr std::uint64_t text_oid = 25;
  std::string out = "R" + integer(oid, 4) + text(schema) + text(name) + "d" + integer(columns.size(), 2);
  for (const auto& column : columns) {
    out += integer(0, 1) + text(column) + integer(text_oid, 4) + integer(0xffffffff, 4);
  }
  return out;
}

using Value = std::optional<std::string>;  // Nothing: NULL.

inline std::string insert(pgoutput::Oid oid, const std::vector<Value>& values) {
  std::string out = "I" + integer(oid, 4) + "N" + integer(values.size(), 2);
  for (const auto& value : values) out += value ? "t" + integer(value->size(), 4) + *value : "n";
  return out;
}

// One of each kind that carries no event.
inline std::vector<std::string> without_event() {
  const std::string row = integer(2, 2) + "n" + "t" + integer(3, 4) + "abc";
  return {
      "U" + integer(7, 4) + "N" + row,
      "U" + integer(7, 4) + "K" + row + "N" + row,
      "U" + integer(7, 4) + "O" + row + "N" + integer(1, 2) + "u",
      "D" + integer(7, 4) + "K" + row,
      "T" + integer(2, 4) + integer(1, 1) + integer(7, 4) + integer(8, 4),
      "Y" + integer(7, 4) + text("public") + text("kind"),
      "O" + integer(7, 8) + text("origin"),
      "M" + integer(1, 1) + integer(7, 8) + text("prefix") + integer(3, 4) + "abc",
  };
}

inline std::string xlog_data(Lsn wal_start, std::string_view message) {
  return "w" + integer(wal_start.value, 8) + integer(wal_start.value, 8) + integer(0, 8) + std::string(message);
}

inline std::string keepalive(Lsn wal_end, bool reply_requested = false) {
  return "k" + integer(wal_end.value, 8) + integer(0, 8) + integer(reply_requested ? 1 : 0, 1);
}

}  // namespace wire
}  // namespace outbox
