// One replication stream from its first byte to its end: the loop that joins connection, relay and sink.
#pragma once

#include <functional>
#include <optional>

#include "cdc/catalog_probe.h"
#include "cdc/observer.h"
#include "cdc/relay.h"
#include "cdc/replication_connection.h"
#include "config/config.h"

namespace outbox {

// How a stream ended that was asked to stop. All other ends are exceptions.
enum class StreamEnd { drained, grace_over };

class Stream {
 public:
  // `status_interval`: the longest silence of ours. All are borrowed.
  Stream(const Config& config, EventLoop& loop, Observer& observer, Relay& relay, Sink& sink,
         ReplicationConnection& connection, std::chrono::milliseconds status_interval);

  // Runs until a signal asks to stop, then reads on to the next Commit and drains, within the grace. Throws PgError,
  // ProtocolError, HaltError, SinkBroken and FatalError.
  StreamEnd run();

 private:
  void read();
  void gather_burst(TimePoint until);
  std::size_t pass_on(const Now& now);  // Returns how many messages.
  void confirm(const Now& now);
  void check_silence(const Now& now) const;
  void probe(const Now& now);
  void release_on_shutdown(const Now& now) const;
  void report_departed_partitions(const Catalog& catalog);
  void wait(const Now& now);
  bool wants_input() const;
  TimePoint wake_at(const Now& now) const;

  const Config& config_;
  EventLoop& loop_;
  Observer& observer_;
  Relay& relay_;
  Sink& sink_;
  ReplicationConnection& connection_;
  CatalogProbe probe_;
  RelationMap relations_;  // At the last look.
  std::chrono::milliseconds status_interval_;

  std::optional<TimePoint> stop_by_;  // Set once a signal has asked to stop.
  bool more_buffered_ = false;        // libpq may hold a whole message that no descriptor shows.
  bool flush_pending_ = false;
  bool busy_ = false;       // Messages come faster than it pays to pass on one by one.
  TimePoint last_message_;  // From the server, or since when we have wanted one.
};

}  // namespace outbox
