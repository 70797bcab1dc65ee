// Durations and sizes as people write them: a whole number and its unit.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace outbox {

// What is wrong with a quantity: "expected …" and the forms that are understood, without the text
// itself.
struct BadQuantity {
  std::string message;
};

// `500ms`, `20s`, `5m`, `1h`; at most a year.
std::variant<std::chrono::milliseconds, BadQuantity> parse_duration(std::string_view text);

// `512B`, `64KiB`, `64MiB`, `1GiB`, and `1kB`, `1MB`, `1GB` in powers of ten; at most 1 TiB. In
// bytes.
std::variant<std::uint64_t, BadQuantity> parse_size(std::string_view text);

}  // namespace outbox
