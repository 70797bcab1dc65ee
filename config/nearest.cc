// Which of the valid words a misspelt one was most likely meant to be.
#include "config/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace outbox {
namespace {

constexpr std::size_t kLongestWord = 40;

bool same_letter(char left, char right) {
  return std::tolower(static_cast<unsigned char>(left)) == std::tolower(static_cast<unsigned char>(right));
}

// Optimal string alignment: the edit distance in which two swapped neighbours count as one edit.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::array<std::array<std::size_t, kLongestWord + 1>, kLongestWord + 1> cost{};
  for (std::size_t i = 0; i <= left.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= right.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replace = cost[i - 1][j - 1] + (same_letter(left[i - 1], right[j - 1]) ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && same_letter(left[i - 1], right[j - 2]) && same_letter(left[i - 2], right[j - 1])) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[left.size()][right.size()];
}

}  // namespace

std::optional<std::string_view> find_nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string_view> nearest;
  std::size_t least = std::max<std::size_t>(1, word.size() / 2);  // More edits than that are another word.
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least || (distance == least && !nearest)) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

std::string suggest_nearest(std::string_view word, std::span<const std::string_view> candidates) {
  const auto nearest = find_nearest(word, candidates);
  return nearest ? "; did you mean \"" + std::string(*nearest) + "\"?" : std::string();
}

}  // namespace outbox
