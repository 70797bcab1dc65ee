// The files that a producer's credentials and certificates come from: read when one is made, watched while they fail.
#pragma once

#include <chrono>
#include <cstdint>

#include "config/config.h"

namespace outbox {

// The configuration with every secret as its file has it at this moment; a file that cannot be read, because it is just
// being replaced, leaves the value that was read last.
KafkaConfig with_current_secrets(KafkaConfig config);

// Changes when one of the files does, secrets and certificates alike.
std::uint64_t secrets_fingerprint(const KafkaConfig& config);

class SecretsWatch {
 public:
  explicit SecretsWatch(const KafkaConfig& config) : config_(config), in_use_(secrets_fingerprint(config)) {}

  void failed() { failing_ = true; }
  void worked() { failing_ = false; }

  // Whether another producer, with the files as they are now, may succeed where this one has failed. Looks at the files
  // at most once a second.
  bool changed_since_failure();

 private:
  KafkaConfig config_;
  std::uint64_t in_use_;
  bool failing_ = false;
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace outbox
