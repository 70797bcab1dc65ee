// Where a server's timelines left the ones before them: the content of a timeline history file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cdc/lsn.h"

namespace outbox {

struct TimelineSwitch {
  std::string timeline;  // The one that was left,
  Lsn end;               // here: what it holds from here on is not part of the later ones.
};

// Oldest first. A line is `timeline TAB position TAB reason`; empty ones and comments (#) are passed over, and so is
// what cannot be read: a position on a timeline that is not named counts as belonging to another history.
using TimelineHistory = std::vector<TimelineSwitch>;

TimelineHistory parse_timeline_history(std::string_view content);

// Where `timeline` was left; nothing where the history does not name it.
std::optional<Lsn> switch_point(const TimelineHistory& history, std::string_view timeline);

}  // namespace outbox
