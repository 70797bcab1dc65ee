// Cursors over a YAML tree that read by the schema and note what is wrong instead of throwing:
// mappings.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "config/nearest.h"
#include "config/schema.h"
#include "config/text.h"
#include "config/yaml_reader.h"

namespace outbox {
namespace {

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string list;
  for (std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return list;
}

}  // namespace

MapReader::MapReader(ReadContext& context, const YamlNode& node, Mark mark, std::string path, std::string schema_path)
    : context_(&context), node_(&node), mark_(mark), path_(std::move(path)), schema_path_(std::move(schema_path)) {
  const auto known = keys_of(schema_path_);
  for (const YamlKey& key : node_->keys) {
    if (std::find(known.begin(), known.end(), key.text) == known.end()) refuse_unknown(key, known);
  }
}

void MapReader::refuse(const std::string& message) const {
  context_->problems.push_back({mark_, path_.empty() ? message : path_ + ": " + message});
}

void MapReader::refuse_unknown(const YamlKey& key, const std::vector<std::string_view>& known) const {
  std::string message = "unknown key " + quoted(key.text);
  message += path_.empty() ? " at the top level" : " in " + path_;
  const std::string_view elsewhere = find_elsewhere(key.text);
  if (const auto nearest = find_nearest(key.text, known)) {
    message += "; did you mean \"" + std::string(*nearest) + "\"?";
  } else if (!elsewhere.empty()) {
    message += "; did you mean " + std::string(elsewhere) + "?";
  }
  context_->problems.push_back({key.mark, message + " (known here: " + listed(known) + ")"});
}

std::optional<ValueReader> MapReader::find(std::string_view key) const {
  const auto known = keys_of(schema_path_);
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    throw std::logic_error("schema.cc does not list " + joined(schema_path_, key));
  }
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    if (node_->keys[i].text != key) continue;
    return ValueReader(*context_, node_->items[i], node_->keys[i].mark, joined(path_, key), joined(schema_path_, key),
                       is_secret_name(key));
  }
  return std::nullopt;
}

std::optional<MapReader> MapReader::map(std::string_view key) const {
  const auto value = find(key);
  return value ? value->map() : std::nullopt;
}

std::optional<ValueReader> MapReader::text(std::string_view key, std::string& into) const {
  const auto value = find(key);
  auto text = value ? value->text() : std::nullopt;
  if (!text) return std::nullopt;
  into = *std::move(text);
  return value;
}

std::optional<ValueReader> MapReader::identifier(std::string_view key, std::string& into) const {
  std::string name;
  const auto value = text(key, name);
  if (!value) return std::nullopt;
  if (const auto refusal = refuse_identifier(name)) {
    value->refuse(*refusal);
    return std::nullopt;
  }
  into = std::move(name);
  return value;
}

std::optional<ValueReader> MapReader::pattern(std::string_view key, Template& into) const {
  const auto value = find(key);
  auto pattern = value ? value->pattern() : std::nullopt;
  if (!pattern) return std::nullopt;
  into = *std::move(pattern);
  return value;
}

std::optional<ValueReader> MapReader::duration(std::string_view key, std::chrono::milliseconds& into) const {
  const auto value = find(key);
  const auto duration = value ? value->duration() : std::nullopt;
  if (!duration) return std::nullopt;
  into = *duration;
  return value;
}

}  // namespace outbox
