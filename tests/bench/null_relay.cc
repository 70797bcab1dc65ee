// The relay with a sink that acknowledges everything at once: what decoding, routing and confirming cost by
// themselves. For the benchmark alone; nothing is published.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cdc/daemon.h"
#include "cdc/logging.h"
#include "config/load.h"

namespace outbox {

class NullSink final : public Sink {
 public:
  NullSink() : event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  SendResult send(const Record&, Ticket ticket) override {
    if (waiting_.size() >= 10000) return SendResult::full;
    if (waiting_.empty()) {
      const std::uint64_t one = 1;
      (void)!write(event_fd_.get(), &one, sizeof one);
    }
    waiting_.push_back(ticket);
    return SendResult::accepted;
  }

  void collect(DeliveryReports& reports) override {
    std::uint64_t wakeups = 0;
    (void)!read(event_fd_.get(), &wakeups, sizeof wakeups);
    reports.delivered.insert(reports.delivered.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }

  int event_fd() const override { return event_fd_.get(); }

 private:
  FileDescriptor event_fd_;
  std::vector<Ticket> waiting_;
};

}  // namespace outbox

// outbox-relay-null run --config FILE
int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: outbox-relay-null run --config FILE\n");
    return outbox::to_int(outbox::ExitCode::usage);
  }
  outbox::start_logging();
  try {
    const auto config = outbox::load_config(argv[3]);
    outbox::Daemon daemon(
        config,
        [](const outbox::Config&, const std::string&, const outbox::CheckpointSource&) {
          return std::make_unique<outbox::NullSink>();
        },
        [&config] { return config; });
    return outbox::to_int(daemon.run());
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return outbox::to_int(outbox::ExitCode::internal);
  }
}
