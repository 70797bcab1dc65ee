#include "config/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace outbox {

namespace {

constexpr std::uint64_t mebibyte = 1024 * 1024;

// Version 1 writes a number close to 2^63 where there is no limit, version 2 the word "max".
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

std::optional<std::uint64_t> limit_in(const std::string& file) {
  std::string text;
  if (!std::getline(std::ifstream(file) >> std::ws, text)) return std::nullopt;
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc{} || end == text.data() || bytes >= no_limit) return std::nullopt;
  return bytes;
}

void lower_to(std::optional<std::uint64_t>& smallest, std::optional<std::uint64_t> limit) {
  if (limit) smallest = std::min(smallest.value_or(*limit), *limit);
}

// A limit of any group above holds for it too.
std::optional<std::uint64_t> smallest_up_from(const std::string& mount, std::string path, const char* file) {
  std::optional<std::uint64_t> smallest;
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    lower_to(smallest, limit_in(mount + path + "/" + file));
    if (path.empty()) return smallest;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// Whether the comma-separated list of controllers names memory.
bool has_memory(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::optional<std::uint64_t> control_group_memory_limit(const std::string& root) {
  std::optional<std::uint64_t> smallest;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:path; version 2 is the hierarchy 0 without controllers.
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const auto path = line.substr(second + 1);
    if (controllers.empty()) lower_to(smallest, smallest_up_from(root + "/sys/fs/cgroup", path, "memory.max"));
    if (has_memory(controllers)) {
      lower_to(smallest, smallest_up_from(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return smallest;
}

std::uint64_t default_memory_budget(std::optional<std::uint64_t> limit) {
  if (!limit) return 64 * mebibyte;
  return std::clamp(*limit / 2, 16 * mebibyte, 256 * mebibyte);
}

}  // namespace outbox
