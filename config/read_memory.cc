// The `memory` section: how much may be held at once.
#include "config/sections.h"
#include "config/units.h"

namespace outbox {

void read_memory(const MapReader& memory, MemoryConfig& into) {
  constexpr std::uint64_t least = 1024 * 1024;
  std::string text;
  const auto value = memory.text("budget", text);
  if (!value || text == "auto") return;
  const auto parsed = parse_size(text);
  if (const auto* bad = std::get_if<BadQuantity>(&parsed)) {
    value->refuse_found(bad->message + ", or auto");
  } else if (std::get<std::uint64_t>(parsed) < least) {
    value->refuse("must be at least 1MiB: records wait there for their acknowledgement");
  } else {
    into.budget_bytes = std::get<std::uint64_t>(parsed);
  }
}

}  // namespace outbox
