#include "cdc/resume.h"

#include <algorithm>

namespace outbox {

namespace {

using Verdict = Resumption::Verdict;

std::optional<ResumePoint> anchored_at(const DeliveredPart& last, Lsn slot_confirmed) {
  // The server sends every transaction whose commit lies at or behind the slot's position.
  if (last.commit_lsn < slot_confirmed) return std::nullopt;
  return ResumePoint{
      .commit_lsn = last.commit_lsn,
      .anchor = ResumePoint::Anchor{.xid = last.xid, .commit_time = last.commit_time, .records = last.records}};
}

}  // namespace

Resumption judge(const Progress& progress, const HistoryIdentity& measured_on, const ServerPosition& server) {
  if (measured_on.system_identifier != server.identity.system_identifier) return {.verdict = Verdict::other};
  if (measured_on.timeline != server.identity.timeline) {
    if (!server.switch_point) return {.verdict = Verdict::other};
    const auto end = *server.switch_point;
    const bool beyond = progress.flushed > end || (progress.last && progress.last->commit_lsn >= end);
    if (beyond) {
      const bool sent_again = server.slot_confirmed < end;
      return {
          .verdict = Verdict::believed,
          .flushed = std::min(progress.flushed, end),
          .resume = sent_again ? std::optional(ResumePoint{.commit_lsn = end, .anchor = std::nullopt}) : std::nullopt};
    }
  }
  if (server.wal_end < progress.flushed) return {.verdict = Verdict::server_back};
  if (server.slot_confirmed > progress.flushed) return {.verdict = Verdict::gap, .flushed = progress.flushed};
  return {.verdict = Verdict::believed,
          .same_history = true,
          .flushed = progress.flushed,
          .resume = progress.last ? anchored_at(*progress.last, server.slot_confirmed) : std::nullopt};
}

}  // namespace outbox
