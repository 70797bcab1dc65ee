// Text for a log or a status line, whatever a row or a server put into it.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// Control characters as \xNN: a topic or a table's name must not forge a line of the log, a field of sd_notify, or
// drive a terminal. UTF-8 stays.
inline std::string printable(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

}  // namespace outbox
