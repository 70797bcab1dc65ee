// The stream itself: START_REPLICATION, CopyData in, standby status updates out.
#pragma once

#include <string>
#include <string_view>

#include "cdc/lsn.h"
#include "cdc/pg_connection.h"
#include "cdc/replication_protocol.h"
#include "cdc/timeline.h"

namespace outbox {

struct SystemIdentity {
  std::string system_identifier;
  std::string timeline;
  std::string database;

  bool operator==(const SystemIdentity&) const = default;
};

// One walsender. Nothing here waits but start() and end().
class ReplicationConnection {
 public:
  ReplicationConnection(const SourceConfig& source, EventLoop& loop, TimePoint deadline);
  // Stays where it is: libpq calls back to its address.
  ReplicationConnection(const ReplicationConnection&) = delete;
  ReplicationConnection& operator=(const ReplicationConnection&) = delete;

  PgConnection& sql() { return connection_; }
  SystemIdentity identify(TimePoint deadline);
  // Where the timelines before `timeline` ended; empty for the first. LOGIN REPLICATION may ask. Only before start().
  TimelineHistory timeline_history(const std::string& timeline, TimePoint deadline);

  // Streams from the later of `start` and the slot's confirmed position; zero leaves it to the slot. Throws PgError:
  // object_in_use where another process holds the slot.
  void start(const std::string& slot, const std::string& publication, Lsn start, TimePoint deadline);

  // Takes what the socket holds into libpq's buffer. Throws PgError where the connection is lost.
  void fill();

  // The next whole CopyData message, valid until the next call; empty where the buffer holds none. Throws PgError
  // when the stream has ended, and FatalError where the server says that it passes over the publication.
  std::string_view next();

  // Queues an update; try_flush() sends it as far as the socket takes it.
  void send(const StandbyStatusUpdate& update, WallTime now);
  // True once everything queued is on its way.
  bool try_flush();

  // Ends the copy and throws away what still arrives. After that sql() can be used again. False where the deadline
  // passed first.
  bool end(TimePoint deadline);

  int socket() const { return PQsocket(connection_.get()); }
  // With TLS a read may leave decrypted bytes behind that the socket does not show.
  bool encrypted() const { return PQsslInUse(connection_.get()) != 0; }

 private:
  [[noreturn]] void stream_ended();

  EventLoop* loop_;
  PgConnection connection_;
  PgCopyBuffer buffer_;
  std::string publication_;
  bool publication_skipped_ = false;
};

// CREATE_REPLICATION_SLOT in the words of the server's version. It waits for every transaction that holds an xid.
// `failover`: standbys keep a copy of it; 17 and later.
std::string create_slot_command(const std::string& slot, bool temporary, bool failover, int server_version);

}  // namespace outbox
