// A position in PostgreSQL's write-ahead log.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

// One past a byte that has been written. Zero is PostgreSQL's InvalidXLogRecPtr: no position.
struct Lsn {
  std::uint64_t value = 0;

  auto operator<=>(const Lsn&) const = default;
  explicit operator bool() const { return value != 0; }
};

// As PostgreSQL prints it: 16/B374D848.
std::string to_string(Lsn lsn);

// Nothing where the text is not a position.
std::optional<Lsn> parse_lsn(std::string_view text);

}  // namespace outbox
