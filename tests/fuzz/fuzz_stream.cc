// libFuzzer target; see fuzz_stream.h.
#include "tests/fuzz/fuzz_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outbox::fuzz_stream({reinterpret_cast<const char*>(data), size});
  return 0;
}
