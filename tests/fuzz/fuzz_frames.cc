// libFuzzer target: arbitrary bytes as one frame of the replication protocol, whole or cut short.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cdc/errors.h"
#include "cdc/replication_protocol.h"

namespace outbox {
namespace {

void fuzz_frames(std::string_view input) {
  // A buffer of its own, so that a read beyond its end is seen.
  const std::string frame(input);
  try {
    const auto decoded = decode_frame(frame);
    if (const auto* data = std::get_if<XLogData>(&decoded)) {
      const auto* end = frame.data() + frame.size();
      if (data->payload.data() + data->payload.size() != end) __builtin_trap();
    }
  } catch (const ProtocolError&) {
  }
  // Times come off the wire too: any of them may be printed, subtracted, and sent back.
  if (input.size() < 8) return;
  std::uint64_t number = 0;
  for (const char byte : input.substr(0, 8)) number = number << 8 | static_cast<std::uint8_t>(byte);
  const auto time = from_postgres_time(static_cast<std::int64_t>(number));
  if (from_postgres_time(to_postgres_time(time)) != time) __builtin_trap();
  (void)(time - from_postgres_time(0));
  constexpr std::size_t update_bytes = 34;
  const StandbyStatusUpdate update{.written = Lsn{number}, .flushed = Lsn{number}, .applied = Lsn{number}};
  if (encode(update, time).size() != update_bytes) __builtin_trap();
}

}  // namespace
}  // namespace outbox

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outbox::fuzz_frames({reinterpret_cast<const char*>(data), size});
  return 0;
}
