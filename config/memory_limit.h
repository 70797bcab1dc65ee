// How much memory the process may take by the limits of its control group, and what follows for the budget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace outbox {

// The smallest limit of the control group and those above it, version 2 or 1; nothing where there is none. `root` is
// where /proc and /sys lie: empty, except in tests.
std::optional<std::uint64_t> control_group_memory_limit(const std::string& root = "");

// The budget for records under such a limit: half of it within bounds, since the process needs the rest for itself.
std::uint64_t default_memory_budget(std::optional<std::uint64_t> limit);

}  // namespace outbox
