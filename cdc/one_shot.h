// What the one-shot commands share: deadlines, and how findings are shown.
#pragma once

#include <cstdio>
#include <vector>

#include "cdc/event_loop.h"
#include "cdc/preflight.h"

namespace outbox {

// A command waits at most this long for each answer of a server.
TimePoint one_shot_deadline();

enum class ShowOk { no, yes };

// Prints a line per finding, `ok`, `warning` or `error` first. Returns the code of the first that stands in the way.
ExitCode report(const std::vector<Finding>& findings, std::FILE* out, ShowOk show_ok);

}  // namespace outbox
