// Cursors over a YAML tree that read by the schema and note what is wrong instead of throwing:
// single values.
#include "config/yaml_reader.h"

#include <map>
#include <utility>

#include "config/expand.h"
#include "config/nearest.h"
#include "config/text.h"
#include "config/units.h"

namespace outbox {

using Kind = YamlNode::Kind;

ValueReader::ValueReader(ReadContext& context, const YamlNode& node, Mark mark, std::string path,
                         std::string schema_path, bool secret)
    : context_(&context),
      node_(&node),
      mark_(mark),
      path_(std::move(path)),
      schema_path_(std::move(schema_path)),
      secret_(secret) {}

void ValueReader::refuse(const std::string& message) const {
  context_->problems.push_back({node_->mark, path_.empty() ? message : path_ + ": " + message});
}

void ValueReader::refuse_key(const std::string& message) const {
  context_->problems.push_back({mark_, path_ + ": " + message});
}

void ValueReader::refuse_found(const std::string& expected) const { refuse(expected + ", found " + found()); }

// The text as it stands in the file: what a variable holds is not shown, it could be a secret.
std::string ValueReader::found() const {
  if (node_->kind == Kind::map) return "a mapping";
  if (node_->kind == Kind::list) return "a list";
  if (node_->kind == Kind::null) return "nothing";
  return secret_ ? "a text that is not shown here" : quoted(node_->text);
}

bool ValueReader::is_scalar(const std::string& expected) const {
  if (node_->kind == Kind::scalar) return true;
  if (node_->kind != Kind::refused) refuse_found(expected);
  return false;
}

std::optional<std::string> ValueReader::text(Empty empty) const {
  if (!is_scalar("expected a text")) return std::nullopt;
  const Expanded expanded = expand(node_->text, context_->environment);
  std::string text;
  for (const std::string& error : expanded.errors) refuse(error);
  for (const Template::Piece& piece : expanded.pieces) {
    if (piece.kind == Template::Piece::Kind::column) {
      const std::string shown = secret_ ? "${…}" : "${" + piece.text + "}";
      refuse(shown +
             " is for topic, key, partition and headers of a route only; here ${env:NAME} is "
             "understood, and "
             "$${ stands for the characters themselves");
      return std::nullopt;
    }
    text += piece.text;
  }
  if (!expanded.errors.empty()) return std::nullopt;
  if (text.find('\0') != std::string::npos) {
    refuse("a NUL byte cannot be in here");
  } else if (text.empty() && empty == Empty::refused) {
    refuse(expanded.used_environment ? "is empty once the environment is put in" : "cannot be empty");
  } else {
    return text;
  }
  return std::nullopt;
}

std::optional<Template> ValueReader::pattern() const {
  if (!is_scalar("expected a text, with ${column} where a value of the row goes")) return std::nullopt;
  Expanded expanded = expand(node_->text, context_->environment);
  for (const std::string& error : expanded.errors) refuse(error);
  if (!expanded.errors.empty()) return std::nullopt;
  return Template{.pieces = std::move(expanded.pieces), .mark = node_->mark};
}

std::optional<std::chrono::milliseconds> ValueReader::duration() const {
  const auto written = text();
  if (!written) return std::nullopt;
  const auto parsed = parse_duration(*written);
  if (const auto* good = std::get_if<std::chrono::milliseconds>(&parsed)) return *good;
  refuse_found(std::get<BadQuantity>(parsed).message);
  return std::nullopt;
}

std::optional<std::size_t> ValueReader::choice(std::span<const std::string_view> words) const {
  const auto written = text();
  if (!written) return std::nullopt;
  std::string expected = "expected ";
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at] == *written) return at;
    expected += (at == 0 ? "" : at + 1 == words.size() ? " or " : ", ") + std::string(words[at]);
  }
  const auto nearest = find_nearest(*written, words);
  refuse(expected + ", found " + found() + (nearest ? "; did you mean " + std::string(*nearest) + "?" : ""));
  return std::nullopt;
}

std::optional<MapReader> ValueReader::map() const {
  if (node_->kind == Kind::refused) return std::nullopt;
  if (node_->kind != Kind::map && node_->kind != Kind::null) {
    refuse_found("expected a mapping (key: value)");
    return std::nullopt;
  }
  refuse_duplicates();
  return MapReader(*context_, *node_, mark_, path_, schema_path_);
}

std::optional<std::vector<ValueReader::Entry>> ValueReader::free_map() const {
  if (node_->kind == Kind::refused) return std::nullopt;
  if (node_->kind != Kind::map) {
    refuse_found("expected a mapping (name: value, or {} for none)");
    return std::nullopt;
  }
  refuse_duplicates();
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    const YamlKey& key = node_->keys[i];
    if (key.text.find('\0') != std::string::npos) {  // A library would stop reading the name there.
      context_->problems.push_back({key.mark, path_ + ": a NUL byte cannot be in a name"});
      continue;
    }
    std::string shown = quoted(key.text);
    shown.front() = '[';  // These names have dots of their own.
    shown.back() = ']';
    entries.push_back(
        {.name = key.text,
         .mark = key.mark,
         .value = ValueReader(*context_, node_->items[i], key.mark, path_ + shown, "", is_secret_name(key.text))});
  }
  return entries;
}

std::optional<std::vector<ValueReader>> ValueReader::list(const std::string& expected) const {
  if (node_->kind == Kind::refused) return std::nullopt;
  if (node_->kind != Kind::list) {
    refuse_found(expected);
    return std::nullopt;
  }
  std::vector<ValueReader> values;
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    const YamlNode& item = node_->items[i];
    values.emplace_back(*context_, item, item.mark, path_ + "[" + std::to_string(i) + "]", schema_path_ + "[]",
                        secret_);
  }
  return values;
}

void ValueReader::refuse_duplicates() const {
  std::map<std::string_view, int> lines;
  for (const YamlKey& key : node_->keys) {
    const auto [first, is_new] = lines.emplace(key.text, key.mark.line);
    if (is_new) continue;
    context_->problems.push_back({key.mark, "duplicate key " + quoted(key.text) + "; it stands in line " +
                                                std::to_string(first->second) + " already"});
  }
}

}  // namespace outbox
