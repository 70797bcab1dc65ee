// libFuzzer target; see fuzz_config.h.
#include "tests/fuzz/fuzz_config.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outbox::fuzz_config({reinterpret_cast<const char*>(data), size});
  return 0;
}
