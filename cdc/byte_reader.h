// Reads the protocol's integers and strings from a buffer; every short read is a ProtocolError.
#pragma once

#include <cstdint>
#include <string_view>

namespace outbox {

// All integers are big-endian. Views point into the buffer, which the caller keeps alive.
class ByteReader {
 public:
  // `what` names the message in errors.
  ByteReader(std::string_view bytes, const char* what) : rest_(bytes), what_(what) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(take(1)[0]); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  std::int64_t i64() { return static_cast<std::int64_t>(integer(8)); }

  // Up to a NUL byte, which is taken too.
  std::string_view string() {
    const auto end = rest_.find('\0');
    if (end == std::string_view::npos) fail_short();
    const auto text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string_view bytes(std::size_t count) { return take(count); }
  std::string_view rest() { return take(rest_.size()); }
  std::size_t remaining() const { return rest_.size(); }

  // The message has been read to its end; anything after it is an error.
  void expect_end() const {
    if (!rest_.empty()) fail_trailing();
  }

 private:
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) fail_short();
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::uint64_t integer(std::size_t width) {
    std::uint64_t value = 0;
    for (const char byte : take(width)) value = value << 8 | static_cast<std::uint8_t>(byte);
    return value;
  }

  [[noreturn]] void fail_short() const;
  [[noreturn]] void fail_trailing() const;

  std::string_view rest_;
  const char* what_;
};

}  // namespace outbox
