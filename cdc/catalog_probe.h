// Looks at the catalog at intervals beside a running stream, without ever waiting.
#pragma once

#include <poll.h>

#include <optional>
#include <string>

#include "cdc/catalog.h"
#include "cdc/conninfo.h"
#include "cdc/event_loop.h"
#include "cdc/pg_handles.h"

namespace outbox {

// Each look is a connection of its own, closed at once: a lasting one would hold a smart shutdown of the server. A
// look that fails, or takes longer than the interval, is given up and made again later.
class CatalogProbe {
 public:
  static constexpr std::chrono::seconds interval{10};
  static constexpr std::chrono::seconds hurried_interval{3};

  // `server`: which of several hosts streams, so that the same one is asked and no name is looked up.
  CatalogProbe(const Config& config, ConnectionKeywords server, TimePoint first);

  // What to wait for; the descriptor is negative between looks.
  pollfd descriptor() const;
  TimePoint next_at() const { return next_at_; }

  // The next look comes early: something on the stream wants an explanation.
  void hurry();

  // Since when the server refuses looks because it is shutting down. It waits for the stream to confirm everything
  // that it has sent, and cannot say so to a reader that does not read.
  std::optional<TimePoint> shutting_down_since() const { return shutting_down_since_; }

  // Goes one step on. Returns what was seen once a look is complete. Where nobody writes and WAL is kept for that
  // reason alone, the look ends with a sign of life.
  std::optional<Catalog> turn(TimePoint now);

 private:
  void begin(TimePoint now);
  void refused(TimePoint now);
  std::optional<Catalog> read_answer();
  void finish_sign_of_life();

  const Config& config_;
  ConnectionKeywords server_;
  TimePoint began_at_;
  TimePoint next_at_;  // Of the next look, or when the present one is given up.
  std::optional<TimePoint> shutting_down_since_;
  PgConnectionHandle connection_;
  bool connected_ = false;
  bool giving_sign_of_life_ = false;
  short events_ = 0;
};

}  // namespace outbox
