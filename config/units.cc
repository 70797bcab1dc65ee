// Durations and sizes as people write them: a whole number and its unit.
#include "config/units.h"

#include <charconv>
#include <span>
#include <system_error>

namespace outbox {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr Unit kDurations[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
constexpr std::uint64_t kLongestDuration = 8760ULL * 3'600'000;

constexpr Unit kSizes[] = {{"B", 1},        {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20},  {"GiB", 1ULL << 30},
                           {"kB", 1000ULL}, {"MB", 1'000'000},   {"GB", 1'000'000'000}};
constexpr std::uint64_t kLargestSize = 1ULL << 40;

struct Form {
  std::string_view expected;  // Such as "a duration such as 500ms, 20s, 5m or 1h".
  std::string_view most;
  std::uint64_t limit;
  std::span<const Unit> units;
};

std::variant<std::uint64_t, BadQuantity> parse(std::string_view text, const Form& form) {
  const std::string expected = "expected " + std::string(form.expected);
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument) return BadQuantity{expected};
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (unit.empty()) return BadQuantity{expected + "; the unit is missing"};
  for (const Unit& known : form.units) {
    if (known.name != unit) continue;
    if (error == std::errc::result_out_of_range || number > form.limit / known.factor) {
      return BadQuantity{expected + "; the most is " + std::string(form.most)};
    }
    return number * known.factor;
  }
  return BadQuantity{expected};
}

}  // namespace

std::variant<std::chrono::milliseconds, BadQuantity> parse_duration(std::string_view text) {
  auto parsed = parse(text, {.expected = "a duration such as 500ms, 20s, 5m or 1h",
                             .most = "8760h",
                             .limit = kLongestDuration,
                             .units = kDurations});
  if (auto* bad = std::get_if<BadQuantity>(&parsed)) return *bad;
  return std::chrono::milliseconds(std::get<std::uint64_t>(parsed));
}

std::variant<std::uint64_t, BadQuantity> parse_size(std::string_view text) {
  return parse(text, {.expected = "a size such as 512B, 64KiB, 1MB or 64MiB",
                      .most = "1024GiB",
                      .limit = kLargestSize,
                      .units = kSizes});
}

}  // namespace outbox
