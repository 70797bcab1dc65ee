#include "sinks/secrets_watch.h"

#include <functional>
#include <string_view>
#include <utility>

#include "config/read_file.h"

namespace outbox {

namespace {

constexpr std::size_t largest_certificate_file = 4 * 1024 * 1024;

bool names_a_file(const Property& property) {
  const std::string_view name = property.name;
  return name.starts_with("ssl.") && name.ends_with(".location");
}

}  // namespace

KafkaConfig with_current_secrets(KafkaConfig config) {
  for (auto& property : config.properties) {
    if (property.secret_file.empty()) continue;
    auto content = read_secret_file(property.secret_file);
    if (auto* secret = std::get_if<std::string>(&content)) property.value = std::move(*secret);
  }
  return config;
}

std::uint64_t secrets_fingerprint(const KafkaConfig& config) {
  std::uint64_t fingerprint = 0;
  const auto add = [&](const std::string& text) {
    fingerprint = fingerprint * 1099511628211U + std::hash<std::string>{}(text);
  };
  for (const auto& property : with_current_secrets(config).properties) {
    if (!property.secret_file.empty()) add(property.value);
    if (!names_a_file(property)) continue;
    const auto content = read_file(property.value, largest_certificate_file);
    if (const auto* text = std::get_if<std::string>(&content)) add(*text);
  }
  return fingerprint;
}

bool SecretsWatch::changed_since_failure() {
  if (!failing_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return false;
  next_look_ = now + std::chrono::seconds(1);
  const auto current = secrets_fingerprint(config_);
  return current != std::exchange(in_use_, current);
}

}  // namespace outbox
