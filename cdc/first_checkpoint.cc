#include "cdc/first_checkpoint.h"

#include <spdlog/spdlog.h>

#include "cdc/checkpoint.h"
#include "cdc/exit_codes.h"
#include "sinks/checkpoint_topic.h"

namespace outbox {

namespace {

constexpr std::chrono::milliseconds kafka_bound{20000};

void write(const Config& config, const SystemIdentity& identity, Lsn confirmed, bool reset) {
  const auto& kafka = *config.sink.kafka;
  const auto topic = transaction_identity(config, identity.system_identifier).checkpoint;
  if (create_checkpoint_topic(kafka, config.file, topic, kafka_bound)) {
    spdlog::info("checkpoint topic \"{}\" made, with one partition, compacted", topic.name);
  } else if (read_checkpoint(kafka, config.file, topic, kafka_bound) && !reset) {
    spdlog::info("checkpoint topic \"{}\" holds a checkpoint already", topic.name);
    return;
  }
  const Checkpoint first{.identity = {.system_identifier = identity.system_identifier, .timeline = identity.timeline},
                         .progress = {.flushed = confirmed, .last = std::nullopt}};
  write_checkpoint(kafka, config.file, topic, encode(first), kafka_bound);
  spdlog::info("first checkpoint written: everything up to {} counts as delivered", to_string(confirmed));
}

}  // namespace

TransactionIdentity transaction_identity(const Config& config, const std::string& system_identifier) {
  const auto& slot = config.source.slot.name;
  return {
      .transactional_id = transactional_id(system_identifier, config.source.database, slot),
      .checkpoint = {.name = config.delivery.checkpoint_topic, .key = checkpoint_key(config.source.database, slot)}};
}

void write_first_checkpoint(const Config& config, const SystemIdentity& identity, Lsn confirmed, bool reset) {
  try {
    write(config, identity, confirmed, reset);
  } catch (const KafkaUnavailable& problem) {
    throw FatalError(ExitCode::unavailable, problem.what());
  } catch (const CheckpointUnusable& problem) {
    throw FatalError(ExitCode::config, problem.what());
  }
}

}  // namespace outbox
