// Which of the valid words a misspelt one was most likely meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace outbox {

// The candidate with the fewest insertions, deletions, replacements and swapped neighbours, or
// nothing where even that one is too far away to have been meant.
std::optional<std::string_view> find_nearest(std::string_view word, std::span<const std::string_view> candidates);

// `; did you mean "…"?`, or nothing.
std::string suggest_nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace outbox
