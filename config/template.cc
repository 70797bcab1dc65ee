// What a template may say in each of its places, as far as that can be known without a row.
#include "config/template.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "config/text.h"

namespace outbox {
namespace {

using Kind = Template::Piece::Kind;

constexpr std::size_t kLongestTopic = 249;

bool fits_in_topic(unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; }

bool is_number(const std::string& text) {
  std::int32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && number >= 0;
}

}  // namespace

bool is_constant(const Template& pattern) {
  return std::all_of(pattern.pieces.begin(), pattern.pieces.end(),
                     [](const Template::Piece& piece) { return piece.kind == Kind::literal; });
}

std::optional<std::string> refuse_topic(const Template& pattern) {
  if (pattern.pieces.empty()) return "a topic cannot be empty";
  std::size_t literal_bytes = 0;
  for (const Template::Piece& piece : pattern.pieces) {
    if (piece.kind != Kind::literal) continue;
    literal_bytes += piece.text.size();
    if (!std::all_of(piece.text.begin(), piece.text.end(), fits_in_topic)) {
      return "a topic's name has only letters, digits, \".\", \"_\" and \"-\"; columns are written "
             "${column}";
    }
  }
  if (literal_bytes > kLongestTopic) return "a topic's name has at most 249 bytes";
  if (is_constant(pattern) && (pattern.pieces[0].text == "." || pattern.pieces[0].text == "..")) {
    return "Kafka allows no topic named \".\" or \"..\"";
  }
  return std::nullopt;
}

std::optional<std::string> refuse_key(const Template& pattern) {
  if (pattern.pieces.empty()) return "a key cannot be empty; leave it out for ${aggregate_id}";
  return std::nullopt;
}

std::optional<std::string> refuse_partition(const Template& pattern) {
  const bool possible =
      is_constant(pattern)
          ? pattern.pieces.size() == 1 && is_number(pattern.pieces[0].text)
          : std::all_of(pattern.pieces.begin(), pattern.pieces.end(), [](const auto& piece) {
              return piece.kind == Kind::column || std::all_of(piece.text.begin(), piece.text.end(),
                                                               [](unsigned char c) { return std::isdigit(c) != 0; });
            });
  if (possible) return std::nullopt;
  return "a partition is a number from 0 up, or a ${column} that holds one; leave it out to go by "
         "the key";
}

}  // namespace outbox
