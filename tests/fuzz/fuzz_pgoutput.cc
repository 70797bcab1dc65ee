// libFuzzer target: arbitrary bytes as pgoutput messages. Every value has to lie inside its message.
//
// Input: message after message, each a u16 length (big-endian) and its bytes; one decoder takes them all.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cdc/errors.h"
#include "cdc/pgoutput.h"

namespace outbox {
namespace {

void check_insert(const pgoutput::Insert& insert, const std::string& message) {
  for (const auto& value : insert.values) {
    if (value.is_null()) {
      if (!value.text.empty()) __builtin_trap();
      continue;
    }
    const auto* begin = message.data();
    const bool inside = value.text.data() >= begin && value.text.data() + value.text.size() <= begin + message.size();
    if (!inside) __builtin_trap();
  }
}

void fuzz_pgoutput(std::string_view input) {
  pgoutput::Decoder decoder;
  while (input.size() >= 2) {
    const std::size_t size = static_cast<std::uint8_t>(input[0]) * 256u + static_cast<std::uint8_t>(input[1]);
    const std::string message(input.substr(2, size));
    input.remove_prefix(std::min(input.size(), 2 + size));
    try {
      const auto decoded = decoder.decode(message);
      if (const auto* insert = std::get_if<pgoutput::Insert>(&decoded)) check_insert(*insert, message);
    } catch (const ProtocolError&) {
    }
  }
}

}  // namespace
}  // namespace outbox

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outbox::fuzz_pgoutput({reinterpret_cast<const char*>(data), size});
  return 0;
}
