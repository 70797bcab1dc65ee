// The floor on PostgreSQL's side: reads a logical replication slot as cheaply as libpq can, counts
// the inserts by their tag and throws everything away.
//
// It never confirms anything (flush 0/0), so the slot stays where it is and can be read again.

#include <endian.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "bench_postgres.h"

namespace {

using bench::monotonic_ns;

constexpr std::size_t xlog_data_header_bytes = 1 + 8 + 8 + 8;
constexpr std::int64_t status_interval_ns = 1'000'000'000;
constexpr std::int64_t postgres_epoch_ns = 946'684'800LL * 1'000'000'000;

std::uint64_t read_u64(const char* bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return be64toh(value);
}

class BulkReader {
 public:
  BulkReader(const bench::Flags& flags, std::int64_t started_ns)
      : wanted_inserts_(flags.count("events")),
        bulk_wait_ns_(flags.count("bulk-wait-us") * 1000),
        give_up_ns_(started_ns + flags.count("timeout-s") * 1'000'000'000),
        connection_(bench::connect(flags.text("conninfo") + " replication=database")) {
    const std::string command = "START_REPLICATION SLOT \"" + flags.text("slot") +
                                "\" LOGICAL 0/0 (proto_version '1', publication_names '\"" + flags.text("publication") +
                                "\"')";
    const bench::PgResult result(PQexec(connection_.get(), command.c_str()));
    bench::expect(connection_.get(), result, PGRES_COPY_BOTH);
    streaming_ns = monotonic_ns();
  }

  void read_to_the_last_commit() {
    while (!done_) {
      take_what_is_buffered();
      if (done_) break;
      wait_for_bytes();
      if (PQconsumeInput(connection_.get()) == 0) fail();
    }
  }

  std::int64_t streaming_ns = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t inserts = 0;
  std::int64_t waits = 0;

 private:
  [[noreturn]] void fail() { throw std::runtime_error(PQerrorMessage(connection_.get())); }

  void take_what_is_buffered() {
    while (!done_) {
      char* raw = nullptr;
      const int length = PQgetCopyData(connection_.get(), &raw, 1);
      if (length == 0) return;
      if (length < 0) fail();
      const bench::PgCopyBuffer buffer(raw);
      take_frame({buffer.get(), static_cast<std::size_t>(length)});
    }
  }

  void take_frame(std::string_view frame) {
    if (frame[0] == 'k') {
      received_ = std::max(received_, read_u64(&frame[1]));
      if (frame.back() != 0) send_status();
      return;
    }
    if (frame[0] != 'w' || frame.size() <= xlog_data_header_bytes) {
      throw std::runtime_error("unexpected frame in the replication stream");
    }
    received_ = std::max(received_, read_u64(&frame[1]));
    switch (frame[xlog_data_header_bytes]) {
      case 'I':
        if (inserts++ == 0) first_ns = monotonic_ns();
        loaded_ = true;
        break;
      case 'C':
        if (inserts >= wanted_inserts_) {
          last_ns = monotonic_ns();
          done_ = true;
        }
        break;
      default:
        break;
    }
  }

  // The walsender writes and wakes its reader once for every message. Letting an emptied socket
  // fill for a moment turns many small reads, and many wake-ups of this process, into a few.
  void wait_for_bytes() {
    const std::int64_t now = monotonic_ns();
    if (now > give_up_ns_) throw std::runtime_error("timed out");
    if (now - status_sent_ns_ >= status_interval_ns) send_status();
    if (readable_within_ms(0)) return;
    if (loaded_ && bulk_wait_ns_ > 0) {
      ++waits;
      bench::sleep_until_ns(now + bulk_wait_ns_);
    }
    loaded_ = false;
    readable_within_ms(100);
  }

  bool readable_within_ms(int timeout_ms) {
    pollfd socket{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
    return poll(&socket, 1, timeout_ms) > 0;
  }

  // Standby status update: 'r', written u64, flushed u64, applied u64, clock i64, reply u8.
  void send_status() {
    char message[1 + 8 + 8 + 8 + 8 + 1] = {'r'};
    const std::uint64_t written = htobe64(received_);
    const std::uint64_t clock = htobe64(static_cast<std::uint64_t>((bench::epoch_ns() - postgres_epoch_ns) / 1000));
    std::memcpy(&message[1], &written, 8);
    std::memcpy(&message[25], &clock, 8);
    if (PQputCopyData(connection_.get(), message, sizeof message) != 1 || PQflush(connection_.get()) < 0) {
      fail();
    }
    status_sent_ns_ = monotonic_ns();
  }

  std::int64_t wanted_inserts_;
  std::int64_t bulk_wait_ns_;
  std::int64_t give_up_ns_;
  std::int64_t status_sent_ns_ = 0;
  std::uint64_t received_ = 0;
  bool loaded_ = false;
  bool done_ = false;
  bench::PgConnection connection_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t started_ns = monotonic_ns();
  return bench::run_main([&] {
    const bench::Flags flags(argc, argv,
                             {{"conninfo", ""},
                              {"slot", ""},
                              {"publication", "outbox"},
                              {"events", "500000"},
                              {"bulk-wait-us", "1000"},
                              {"timeout-s", "300"}});
    BulkReader reader(flags, started_ns);
    reader.read_to_the_last_commit();
    bench::JsonLine()
        .add("events", reader.inserts)
        .add("seconds", bench::seconds_between(reader.first_ns, reader.last_ns))
        .add("start_to_streaming_seconds", bench::seconds_between(started_ns, reader.streaming_ns))
        .add("start_to_first_seconds", bench::seconds_between(started_ns, reader.first_ns))
        .add("total_seconds", bench::seconds_between(started_ns, reader.last_ns))
        .add("waits", reader.waits)
        .add_usage()
        .print();
  });
}
