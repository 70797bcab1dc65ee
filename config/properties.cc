// Keys and values that are handed to libpq or librdkafka as they are: how they are read.
#include "config/properties.h"

#include <algorithm>
#include <string>
#include <utility>

#include "config/read_file.h"

namespace outbox {
namespace {

constexpr std::string_view kFileSuffix = "_file";

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

bool is_secret_file(const PropertyRules& rules, std::string_view name) {
  if (!name.ends_with(kFileSuffix)) return false;
  name.remove_suffix(kFileSuffix.size());
  return std::find(rules.secrets.begin(), rules.secrets.end(), name) != rules.secrets.end();
}

std::optional<std::string> read_secret(const ValueReader& value) {
  const auto path = value.text();
  if (!path) return std::nullopt;
  auto content = read_secret_file(*path);
  if (const auto* bad = std::get_if<BadFile>(&content)) {
    value.refuse("the file it names " + bad->message);
    return std::nullopt;
  }
  return std::get<std::string>(std::move(content));
}

}  // namespace

std::optional<std::string_view> find_refusal(const PropertyRules& rules, std::string_view name) {
  for (const RefusedProperty& refused : rules.refused) {
    if (matches(refused.name, name)) return refused.reason;
  }
  return std::nullopt;
}

std::vector<Property> read_properties(const ValueReader& value, const PropertyRules& rules) {
  std::vector<Property> properties;
  const auto entries = value.free_map();
  if (!entries) return properties;
  for (const auto& [name, mark, entry] : *entries) {
    if (name.empty()) {
      entry.refuse("a name cannot be empty");
    } else if (const auto reason = find_refusal(rules, name)) {
      entry.refuse_key(std::string("cannot be set: ") + std::string(*reason));
    } else if (is_secret_file(rules, name)) {
      const std::string secret = name.substr(0, name.size() - kFileSuffix.size());
      const bool twice = std::any_of(entries->begin(), entries->end(), [&](const auto& e) { return e.name == secret; });
      if (twice) entry.refuse_key("stands beside \"" + secret + "\"; keep one of the two");
      if (auto content = read_secret(entry)) properties.push_back({secret, *std::move(content), mark, *entry.text()});
    } else if (name.ends_with(kFileSuffix)) {
      entry.refuse_key("is no property of " + std::string(rules.library) +
                       "; only secrets can be read from a file this way");
    } else if (auto text = entry.text(ValueReader::Empty::allowed)) {
      properties.push_back({name, *std::move(text), mark});
    }
  }
  return properties;
}

}  // namespace outbox
