#include "cdc/timeline.h"

#include <sstream>

namespace outbox {

TimelineHistory parse_timeline_history(std::string_view content) {
  TimelineHistory history;
  std::istringstream lines{std::string(content)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string timeline;
    std::string position;
    if (!(words >> timeline >> position) || timeline.starts_with('#')) continue;
    if (const auto end = parse_lsn(position)) history.push_back({.timeline = timeline, .end = *end});
  }
  return history;
}

std::optional<Lsn> switch_point(const TimelineHistory& history, std::string_view timeline) {
  for (const auto& each : history) {
    if (each.timeline == timeline) return each.end;
  }
  return std::nullopt;
}

}  // namespace outbox
