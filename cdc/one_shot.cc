#include "cdc/one_shot.h"

#include <fmt/format.h>

namespace outbox {

TimePoint one_shot_deadline() { return EventLoop::now().steady + std::chrono::seconds(15); }

ExitCode report(const std::vector<Finding>& findings, std::FILE* out, ShowOk show_ok) {
  auto code = ExitCode::ok;
  for (const auto& finding : findings) {
    using Severity = Finding::Severity;
    const bool stands_in_the_way = finding.severity == Severity::halt || finding.severity == Severity::fatal;
    if (finding.severity == Severity::ok && show_ok == ShowOk::no) continue;
    const char* label = stands_in_the_way ? "error" : finding.severity == Severity::warning ? "warning" : "ok";
    fmt::print(out, "{:<8} {}\n", label, to_string(finding));
    if (stands_in_the_way && code == ExitCode::ok) code = finding.code;
  }
  return code;
}

}  // namespace outbox
