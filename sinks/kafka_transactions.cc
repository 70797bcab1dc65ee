#include "sinks/kafka_transactions.h"

#include <fmt/format.h>

#include <algorithm>

namespace outbox {

namespace {

using std::chrono::milliseconds;

// Far below the window's bound, so that it never waits for a transaction which waits for it.
constexpr std::size_t most_records = 32000;
constexpr std::size_t most_bytes = std::size_t{32} << 20;
constexpr milliseconds longest_open{250};
// Shorter than librdkafka's request timeout: a commit is never asked for twice.
constexpr int commit_bound_ms = 10000;
constexpr int fencing_turn_ms = 1000;
constexpr milliseconds abort_bound{2000};

// Of the checkpoint record, which the caller never sees.
constexpr Ticket checkpoint_ticket{~std::uint64_t{0}};

std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

std::size_t size_of(const Record& record) { return record.key.value_or("").size() + record.value.value_or("").size(); }

}  // namespace

KafkaTransactions::KafkaTransactions(const KafkaConfig& config, const std::string& config_file,
                                     TransactionIdentity identity, CheckpointSource checkpoint, KafkaLog log,
                                     std::shared_ptr<KafkaMemory> memory)
    : config_(config),
      config_file_(config_file),
      identity_(std::move(identity)),
      checkpoint_(std::move(checkpoint)),
      // A failed batch aborts its transaction, which needs the producer to live on.
      sink_(config, config_file, std::move(log), std::move(memory),
            {{"transactional.id", identity_.transactional_id}, {"enable.gapless.guarantee", "false"}}) {
  start([](rd_kafka_t* producer) { return rd_kafka_init_transactions(producer, fencing_turn_ms); });
}

KafkaTransactions::~KafkaTransactions() {
  if (thread_.joinable()) thread_.join();
  const bool open = phase_ == Phase::open || phase_ == Phase::closing;
  if (!open) return;
  // Otherwise read_committed readers would wait for the broker's timeout.
  const auto deadline = now() + abort_bound;
  DeliveryReports ignored;
  while (now() < deadline) {
    const KafkaError error(rd_kafka_abort_transaction(sink_.producer(), 20));
    if (!error || rd_kafka_error_code(error.get()) != RD_KAFKA_RESP_ERR__TIMED_OUT) return;
    try {
      sink_.collect(ignored);
    } catch (const SinkBroken&) {
      return;
    }
  }
}

// Fatal and abortable errors alike end this producer: the next one finds in the checkpoint what was committed.
void KafkaTransactions::throw_for(const rd_kafka_error_t* error, const char* doing) const {
  const auto code = rd_kafka_error_code(error);
  const auto text =
      fmt::format("Kafka producer: {}: {} ({})", doing, rd_kafka_error_string(error), rd_kafka_err2name(code));
  if (is_fencing(code)) throw SinkFenced(text);
  if (code == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED) {
    throw CheckpointUnusable(fmt::format(
        "{}. Grant it: kafka-acls.sh --bootstrap-server … --add --allow-principal User:… --operation Write --operation "
        "Describe --transactional-id {}",
        text, identity_.transactional_id));
  }
  throw SinkBroken(text);
}

void KafkaTransactions::start(std::function<rd_kafka_error_t*(rd_kafka_t*)> call) {
  std::packaged_task<KafkaError()> task([this, call = std::move(call)] { return KafkaError(call(sink_.producer())); });
  under_way_ = task.get_future();
  thread_ = std::jthread([this, task = std::move(task)]() mutable {
    task();
    sink_.wake();
  });
}

// What the call that is under way has come to; nothing while it is.
std::optional<KafkaError> KafkaTransactions::finished() {
  if (!under_way_.valid()) throw SinkBroken("Kafka producer: its last call has failed");  // And said so at the time.
  if (under_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return under_way_.get();
}

void KafkaTransactions::begin() {
  const KafkaError error(rd_kafka_begin_transaction(sink_.producer()));
  if (error) throw_for(error.get(), "beginning a transaction");
  phase_ = Phase::open;
  opened_ = now();
  records_ = 0;
  unreported_ = 0;
  bytes_ = 0;
  flush_wanted_ = false;
}

bool KafkaTransactions::due() const {
  return records_ >= most_records || bytes_ >= most_bytes || flush_wanted_ || now() - opened_ >= longest_open;
}

Sink::SendResult KafkaTransactions::send(const Record& record, Ticket ticket) {
  if (failed_) return SendResult::full;
  if (phase_ == Phase::ready) begin();
  if (phase_ != Phase::open) return SendResult::full;
  if (records_ >= most_records || bytes_ >= most_bytes) {
    close();
    return SendResult::full;
  }
  const auto result = sink_.send(record, ticket);
  if (result == SendResult::accepted) {
    ++records_;
    ++unreported_;
    bytes_ += size_of(record);
  }
  return result;
}

bool KafkaTransactions::write_checkpoint() {
  if (failed_) return false;
  if (phase_ == Phase::ready) begin();
  if (phase_ != Phase::open) return false;
  close();
  return phase_ == Phase::closing;
}

// The record of the checkpoint topic goes in the same transaction as the records that it covers.
void KafkaTransactions::close() {
  const auto text = checkpoint_();
  const Record record{.topic = identity_.checkpoint.name,
                      .key = identity_.checkpoint.key,
                      .value = text,
                      .headers = {},
                      .partition = 0,
                      .timestamp_ms = 0};
  const auto result = sink_.send(record, checkpoint_ticket);
  if (result == SendResult::full) return;
  if (result == SendResult::refused) throw_unusable(sink_.refusal());
  ++unreported_;
  phase_ = Phase::closing;
}

void KafkaTransactions::take_reports(DeliveryReports& reports) {
  DeliveryReports arrived;
  sink_.collect(arrived);
  for (const auto ticket : arrived.delivered) {
    if (ticket != checkpoint_ticket) written_.push_back(ticket);
    --unreported_;
  }
  for (auto& failure : arrived.failed) {
    if (failure.ticket == checkpoint_ticket) throw_unusable(failure);
    failed_ = true;
    reports.failed.push_back(std::move(failure));
  }
  if (!failed_) {
    if (arrived.given_up.empty()) return;
    throw SinkBroken("Kafka producer: the transaction is aborted, for no fault of a record");
  }
  // Neither what has been written of it nor what has not will ever be committed.
  std::erase(arrived.given_up, checkpoint_ticket);
  reports.given_up.insert(reports.given_up.end(), arrived.given_up.begin(), arrived.given_up.end());
  reports.given_up.insert(reports.given_up.end(), written_.begin(), written_.end());
  written_.clear();
}

void KafkaTransactions::throw_unusable(const DeliveryFailure& failure) const {
  throw CheckpointUnusable(fmt::format("checkpoint topic \"{}\" takes no record: {}. {}", identity_.checkpoint.name,
                                       failure.reason, failure.remedy));
}

void KafkaTransactions::take_commit(DeliveryReports& reports) {
  const auto outcome = finished();
  if (!outcome) return;
  if (const auto* error = outcome->get()) {
    if (rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR__TIMED_OUT) throw_for(error, "committing a transaction");
    // A commit that is asked for again could end the next transaction early: a new producer has a new epoch, and the
    // checkpoint says whether this one came through.
    throw SinkBroken("Kafka producer: a transaction was not committed in time; the checkpoint will say whether it was");
  }
  reports.delivered.insert(reports.delivered.end(), written_.begin(), written_.end());
  reports.checkpoint_written = true;
  written_.clear();
  phase_ = Phase::ready;
}

void KafkaTransactions::fence() {
  const auto outcome = finished();
  if (!outcome) return;
  if (const auto* error = outcome->get()) {
    if (rd_kafka_error_is_retriable(error) == 0) throw_for(error, "taking over the transactions");
    start([](rd_kafka_t* producer) { return rd_kafka_init_transactions(producer, fencing_turn_ms); });
    return;
  }
  reader_ = std::make_unique<CheckpointReader>(config_, config_file_, identity_.checkpoint);
  phase_ = Phase::reading;
}

void KafkaTransactions::collect(DeliveryReports& reports) {
  take_reports(reports);
  if (failed_) return;  // The caller gives up this sink, and with it the transaction.
  if (phase_ == Phase::fencing) fence();
  if (phase_ == Phase::reading) {
    reports.stored_checkpoint = reader_->turn();
    if (!reports.stored_checkpoint) return;
    reader_.reset();
    phase_ = Phase::ready;
    flush_wanted_ = false;
  }
  if (phase_ == Phase::open && due()) close();
  if (phase_ == Phase::closing && unreported_ == 0) {
    phase_ = Phase::committing;
    start([](rd_kafka_t* producer) { return rd_kafka_commit_transaction(producer, commit_bound_ms); });
  }
  if (phase_ == Phase::committing) take_commit(reports);
}

milliseconds KafkaTransactions::collect_within() const {
  switch (phase_) {
    case Phase::reading:
      return milliseconds(5);
    case Phase::open:
      return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(opened_ + longest_open - now()));
    case Phase::fencing:
    case Phase::ready:
    case Phase::closing:
    case Phase::committing:
      return milliseconds::max();
  }
  return milliseconds::max();
}

}  // namespace outbox
