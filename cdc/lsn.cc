#include "cdc/lsn.h"

#include <fmt/format.h>

#include <charconv>

namespace outbox {

std::string to_string(Lsn lsn) { return fmt::format("{:X}/{:X}", lsn.value >> 32, lsn.value & 0xffffffffu); }

namespace {

std::optional<std::uint32_t> parse_hex(std::string_view digits) {
  std::uint32_t value = 0;
  const char* end = digits.data() + digits.size();
  auto [parsed_to, error] = std::from_chars(digits.data(), end, value, 16);
  if (error != std::errc{} || parsed_to != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Lsn> parse_lsn(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto high = parse_hex(text.substr(0, slash));
  const auto low = parse_hex(text.substr(slash + 1));
  if (!high || !low) return std::nullopt;
  return Lsn{std::uint64_t{*high} << 32 | *low};
}

}  // namespace outbox
