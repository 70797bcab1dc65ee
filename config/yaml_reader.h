// Cursors over a YAML tree that read by the schema and note what is wrong instead of throwing.
//
// Every read leaves its target as it was unless the file has a good value for it, so defaults
// survive.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "config/yaml_tree.h"

namespace outbox {

// What every cursor of one load shares.
struct ReadContext {
  const Environment& environment;
  std::vector<ConfigProblem>& problems;
};

class MapReader;

// One value and the path it is known by, such as `outbox[0].route.topic`.
class ValueReader {
 public:
  ValueReader(ReadContext& context, const YamlNode& node, Mark mark, std::string path, std::string schema_path,
              bool secret);

  const std::string& path() const { return path_; }
  Mark mark() const { return mark_; }  // Of its key, or of itself in a list.
  bool is_null() const { return node_->kind == YamlNode::Kind::null; }

  // A problem where the value stands, said as `path: message`.
  void refuse(const std::string& message) const;
  // The same where its key stands.
  void refuse_key(const std::string& message) const;
  // A problem of the form `path: <expected>, found <this>`; a secret is not shown.
  void refuse_found(const std::string& expected) const;

  // The text with `${env:…}` put in. `empty_allowed` is for the few places where an empty text
  // means something.
  enum class Empty { refused, allowed };
  std::optional<std::string> text(Empty empty = Empty::refused) const;
  std::optional<Template> pattern() const;
  std::optional<std::chrono::milliseconds> duration() const;
  // The position in `words` of the one that it says.
  std::optional<std::size_t> choice(std::span<const std::string_view> words) const;

  // A mapping with the keys of the schema; one that is left empty has none of them.
  std::optional<MapReader> map() const;
  // A mapping whose keys are not ours to know, in the order of the file.
  struct Entry;
  std::optional<std::vector<Entry>> free_map() const;
  std::optional<std::vector<ValueReader>> list(const std::string& expected) const;

 private:
  bool is_scalar(const std::string& expected) const;
  std::string found() const;
  void refuse_duplicates() const;

  ReadContext* context_;
  const YamlNode* node_;
  Mark mark_;
  std::string path_;
  std::string schema_path_;  // The same without the numbers: how schema.h calls it. Empty in a free map.
  bool secret_;              // Never to be shown.
};

struct ValueReader::Entry {
  std::string name;
  Mark mark;
  ValueReader value;
};

// A mapping whose keys stand in the schema. Unknown and duplicate keys are reported when it is
// made.
class MapReader {
 public:
  MapReader(ReadContext& context, const YamlNode& node, Mark mark, std::string path, std::string schema_path);

  const std::string& path() const { return path_; }
  Mark mark() const { return mark_; }

  // A problem with the mapping as a whole.
  void refuse(const std::string& message) const;

  std::optional<ValueReader> find(std::string_view key) const;
  std::optional<MapReader> map(std::string_view key) const;

  // Each returns the value's reader where the target was set, for checks that go on from there.
  std::optional<ValueReader> text(std::string_view key, std::string& into) const;
  std::optional<ValueReader> identifier(std::string_view key, std::string& into) const;
  std::optional<ValueReader> pattern(std::string_view key, Template& into) const;
  std::optional<ValueReader> duration(std::string_view key, std::chrono::milliseconds& into) const;

  template <typename Enum>
  struct Choice {
    std::string_view word;
    Enum value;
  };
  template <typename Enum>
  void choice(std::string_view key, Enum& into, std::initializer_list<Choice<Enum>> choices) const {
    const auto value = find(key);
    if (!value) return;
    std::vector<std::string_view> words;
    for (const auto& choice : choices) words.push_back(choice.word);
    if (const auto at = value->choice(words)) into = (choices.begin() + *at)->value;
  }

 private:
  void refuse_unknown(const YamlKey& key, const std::vector<std::string_view>& known) const;

  ReadContext* context_;
  const YamlNode* node_;
  Mark mark_;
  std::string path_;
  std::string schema_path_;
};

}  // namespace outbox
