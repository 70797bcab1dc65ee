// YAML text as a tree of plain structs, every node with its place; the only part that knows
// yaml-cpp.
//
// Scalars stay the text that stands in the file: what a text means is decided by the schema, never
// by YAML.
#pragma once

#include <string>
#include <vector>

#include "config/load.h"

namespace outbox {

struct YamlKey {
  std::string text;
  Mark mark;
};

struct YamlNode {
  // `refused` stands where a problem has been reported already: nobody says more about it.
  enum class Kind { null, scalar, list, map, refused };
  Kind kind = Kind::null;
  Mark mark;
  std::string text{};             // Of a scalar.
  std::vector<YamlKey> keys{};    // Of a map, one for each item and in the order of the file; duplicates are kept.
  std::vector<YamlNode> items{};  // Of a list or a map.
};

constexpr int kDeepestYaml = 50;

// The one document in `text`; `null` where it is empty. What is no YAML, or is YAML that has no use
// here (anchors, aliases, tags, keys that are not text, a second document, more than kDeepestYaml
// levels), is added to `problems`.
YamlNode parse_yaml(const std::string& text, std::vector<ConfigProblem>& problems);

}  // namespace outbox
