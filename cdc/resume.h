// How far a relay has come, and what of that a server can be believed to share.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "cdc/lsn.h"
#include "cdc/replication_protocol.h"

namespace outbox {

// A transaction of which the first `records` inserts are delivered.
struct DeliveredPart {
  static constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();

  Lsn commit_lsn;
  std::uint32_t xid = 0;
  WallTime commit_time;
  std::uint64_t records = all;

  bool operator==(const DeliveredPart&) const = default;
};

struct Progress {
  Lsn flushed;                        // Every transaction that ends here or before is delivered.
  std::optional<DeliveredPart> last;  // The latest one of which anything is delivered.

  bool operator==(const Progress&) const = default;
};

// Which history a position was measured on.
struct HistoryIdentity {
  std::string system_identifier;
  std::string timeline;

  bool operator==(const HistoryIdentity&) const = default;
};

// From where on the events of a stream are news. Transactions committed below `commit_lsn` are delivered.
struct ResumePoint {
  // The one that commits at that very place, which has to come by again and thereby shows that the history is the same.
  struct Anchor {
    std::uint32_t xid = 0;
    WallTime commit_time;
    std::uint64_t records = 0;  // So many of its inserts are delivered.
  };

  Lsn commit_lsn;
  std::optional<Anchor> anchor;  // Nothing: none needs to come by, and none at that place is delivered.
};

// The server that a stream begins on.
struct ServerPosition {
  HistoryIdentity identity;
  Lsn slot_confirmed;
  Lsn wal_end;
  // Where `timeline` of the progress ended, if this server's timeline branched off from it.
  std::optional<Lsn> switch_point;
};

struct Resumption {
  enum class Verdict {
    believed,     // All of it, or what lies below the switch point.
    other,        // Another system, or a timeline that does not descend from the one of the progress.
    server_back,  // The server is behind: it was restored from a copy.
    gap,          // The slot is beyond what was delivered: somebody else moved it.
  };
  Verdict verdict = Verdict::believed;
  bool same_history = false;               // All of it is believed.
  Lsn flushed = {};                        // As far as it is believed.
  std::optional<ResumePoint> resume = {};  // Nothing: the slot's own position says all.
};

// On a changed timeline only what lies below the switch point is believed: above it the same positions hold other
// transactions.
Resumption judge(const Progress& progress, const HistoryIdentity& measured_on, const ServerPosition& server);

}  // namespace outbox
