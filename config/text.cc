// How text from a file is checked and how it is shown in a message.
#include "config/text.h"

#include <cstdint>

namespace outbox {
namespace {

constexpr std::size_t kLongestShown = 60;
constexpr std::size_t kLongestIdentifier = 63;  // NAMEDATALEN - 1.

// The length of the valid sequence at the start of `text`, or 0. `text` is not empty.
std::size_t utf8_sequence_length(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string shown = "\"";
  std::size_t at = 0;
  while (at < text.size() && at < kLongestShown) {
    const auto byte = static_cast<std::uint8_t>(text[at]);
    const std::size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      shown += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      ++at;
    } else {
      shown += text.substr(at, length);
      at += length;
    }
  }
  if (at < text.size()) shown += "…";
  return shown + "\"";
}

std::optional<std::string> refuse_identifier(std::string_view name) {
  if (name.empty()) return "a name cannot be empty";
  if (name.size() > kLongestIdentifier) {
    return "a name in PostgreSQL has at most 63 bytes, this one has " + std::to_string(name.size());
  }
  if (name.find('\0') != std::string_view::npos) return "a name cannot contain a NUL byte";
  if (find_invalid_utf8(name)) return "a name must be valid UTF-8";
  return std::nullopt;
}

bool is_secret_name(std::string_view name) {
  for (std::string_view part : {"password", "secret", "passphrase", "key.pem"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace outbox
