// Records to Kafka inside transactions, each of which also carries the checkpoint: exactly once for read_committed.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sinks/checkpoint_reader.h"
#include "sinks/kafka_sink.h"

namespace outbox {

// What the records and the checkpoint of one slot are written as.
struct TransactionIdentity {
  std::string transactional_id;  // The same for every relay of the slot: a new producer fences the one before.
  CheckpointTopic checkpoint;
};

// Begins by fencing every older producer of the same transactional.id, then reports the stored checkpoint; until then
// send() says `full`. A Kafka transaction begins with the first record; it is closed when the caller has nothing more
// to send, or by count, bytes and age, far below transaction.timeout.ms. Closing adds the checkpoint; once the
// transaction is committed its records are reported delivered, not before. Destroying the sink aborts what is open.
class KafkaTransactions final : public Sink {
 public:
  KafkaTransactions(const KafkaConfig& config, const std::string& config_file, TransactionIdentity identity,
                    CheckpointSource checkpoint, KafkaLog log, std::shared_ptr<KafkaMemory> memory = nullptr);
  ~KafkaTransactions() override;

  SendResult send(const Record& record, Ticket ticket) override;
  DeliveryFailure refusal() const override { return sink_.refusal(); }
  // Throws SinkFenced where another producer has taken over, or the broker has timed the transaction out.
  void collect(DeliveryReports& reports) override;
  int event_fd() const override { return sink_.event_fd(); }
  void expect_topics(const std::vector<std::string>& topics) override { sink_.expect_topics(topics); }
  void flush() override { flush_wanted_ = true; }
  bool keeps_checkpoint() const override { return true; }
  bool write_checkpoint() override;
  std::chrono::milliseconds collect_within() const override;

 private:
  enum class Phase {
    fencing,     // init_transactions is under way.
    reading,     // The stored checkpoint is being read.
    ready,       // No transaction is open.
    open,        // Records may be added.
    closing,     // The checkpoint has been added; its reports and those of the records are awaited.
    committing,  // commit_transaction is under way.
  };

  void start(std::function<rd_kafka_error_t*(rd_kafka_t*)> call);
  std::optional<KafkaError> finished();
  void begin();
  void close();
  void take_reports(DeliveryReports& reports);
  [[noreturn]] void throw_unusable(const DeliveryFailure& failure) const;
  void fence();
  void take_commit(DeliveryReports& reports);
  bool due() const;
  void throw_for(const rd_kafka_error_t* error, const char* doing) const;

  KafkaConfig config_;
  std::string config_file_;
  TransactionIdentity identity_;
  CheckpointSource checkpoint_;
  KafkaSink sink_;
  std::unique_ptr<CheckpointReader> reader_;
  Phase phase_ = Phase::fencing;
  bool failed_ = false;  // A record was refused for good: the open transaction is not committed any more.
  std::chrono::steady_clock::time_point opened_;
  std::size_t records_ = 0;     // Of the open transaction.
  std::size_t unreported_ = 0;  // Of them and the checkpoint.
  std::size_t bytes_ = 0;
  // The call that librdkafka would block for. On a thread of its own and with one long timeout: asked again and again
  // with none, 2.0.2 takes the answer to a commit for that to an abort and gives up the process.
  std::future<KafkaError> under_way_;
  std::jthread thread_;
  std::vector<Ticket> written_;  // Reported by the broker, not yet committed.
  bool flush_wanted_ = false;
};

}  // namespace outbox
