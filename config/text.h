// How text from a file is checked and how it is shown in a message.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

// The offset of the first byte that is not part of valid UTF-8, or nothing.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// In quotes, on one line, at most some 60 bytes of it, with control characters and bad bytes as
// \xNN.
std::string quoted(std::string_view text);

// Why `name` cannot name something in PostgreSQL (1 to 63 bytes of UTF-8, no NUL), or nothing.
std::optional<std::string> refuse_identifier(std::string_view name);

// Whether the value of a key or property of this name must never be shown.
bool is_secret_name(std::string_view name);

}  // namespace outbox
