// YAML text as a tree of plain structs, every node with its place; the only part that knows
// yaml-cpp.
#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "config/text.h"

namespace outbox {
namespace {

using Kind = YamlNode::Kind;

Mark to_mark(const YAML::Mark& mark) {
  // yaml-cpp counts from 0 and marks what has no place with -1.
  return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

struct TooDeep {
  Mark mark;
};

// Builds the tree from yaml-cpp's events. They come while it parses, so the limit on depth stops it
// in time.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::vector<ConfigProblem>& problems) : problems_(problems) {}

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.kind = check(mark, "", anchor) ? Kind::null : Kind::refused, .mark = to_mark(mark)});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.push_back(
        {to_mark(mark), "aliases (*name) are not supported; what entries share goes into \"defaults\""});
    add({.kind = Kind::refused, .mark = to_mark(mark)});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Kind kind = check(mark, tag, anchor) ? Kind::scalar : Kind::refused;
    add({.kind = kind, .mark = to_mark(mark), .text = value});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, check(mark, tag, anchor) ? Kind::list : Kind::refused);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, check(mark, tag, anchor) ? Kind::map : Kind::refused, true);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    bool is_map;
    std::optional<YamlKey> key;  // Read, and its value still to come.
  };

  bool check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      problems_.push_back({to_mark(mark),
                           "anchors (&name) are not supported; what entries share goes into "
                           "\"defaults\""});
      return false;
    }
    if (tag.empty() || tag == "?" || tag == "!") return true;  // Untagged: plain or quoted.
    problems_.push_back({to_mark(mark), "tags (!name) are not supported"});
    return false;
  }

  void open(const YAML::Mark& mark, Kind kind, bool is_map = false) {
    if (open_.size() >= kDeepestYaml) throw TooDeep{to_mark(mark)};
    open_.push_back({.node = {.kind = kind, .mark = to_mark(mark)}, .is_map = is_map, .key = std::nullopt});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.is_map && !parent.key) {
      if (node.kind == Kind::list || node.kind == Kind::map || node.kind == Kind::null) {
        problems_.push_back({node.mark, "a key must be text"});
        parent.node.kind = Kind::refused;
      }
      parent.key = YamlKey{std::move(node.text), node.mark};
      return;
    }
    if (parent.is_map) {
      if (node.kind == Kind::null) node.mark = parent.key->mark;  // yaml-cpp marks the token after it.
      parent.node.keys.push_back(*std::move(parent.key));
      parent.key.reset();
    }
    parent.node.items.push_back(std::move(node));
  }

  std::vector<ConfigProblem>& problems_;
  std::vector<Open> open_;
  YamlNode root_;
};

Mark mark_at(const std::string& text, std::size_t offset) {
  const auto begin = text.begin();
  const auto here = begin + static_cast<std::ptrdiff_t>(offset);
  const std::size_t line_start = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const std::size_t column = line_start == std::string::npos ? offset : offset - line_start - 1;
  return {static_cast<int>(std::count(begin, here, '\n')) + 1, static_cast<int>(column) + 1};
}

// yaml-cpp takes a byte 4 for the end of the file and replaces bad UTF-8: neither may change what a
// file says.
bool check_bytes(const std::string& text, std::vector<ConfigProblem>& problems) {
  const auto control = std::find_if(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  });
  const std::size_t before = problems.size();
  if (control != text.end()) {
    problems.push_back({mark_at(text, static_cast<std::size_t>(control - text.begin())),
                        "a control character; in double quotes it can be written as an escape such as \\x1b"});
  }
  if (const auto bad = find_invalid_utf8(text)) problems.push_back({mark_at(text, *bad), "not valid UTF-8"});
  return problems.size() == before;
}

// `${` in braces or brackets without quotes is the usual mistake, and yaml-cpp's words do not lead
// there.
std::string explain(const YAML::Exception& error, const std::string& text) {
  // After a colon yaml-cpp shows what it met, which could be a piece of a secret.
  std::string message = "not valid YAML: " + error.msg.substr(0, error.msg.find(": "));
  std::istringstream lines(text);
  std::string line;
  for (int at = 0; at <= error.mark.line && std::getline(lines, line); ++at) {
  }
  if (line.find("${") != std::string::npos) message += "; inside { } and [ ] a text with ${…} needs quotes";
  return message;
}

}  // namespace

YamlNode parse_yaml(const std::string& text, std::vector<ConfigProblem>& problems) {
  YamlNode root{.kind = Kind::refused, .mark = {1, 1}};
  if (!check_bytes(text, problems)) return root;
  TreeBuilder builder(problems);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return YamlNode{.mark = {1, 1}};
    root = builder.take_root();
    TreeBuilder second(problems);
    if (parser.HandleNextDocument(second)) {
      problems.push_back({second.take_root().mark, "a second document; the file has to be a single one"});
    }
  } catch (const TooDeep& error) {
    problems.push_back({error.mark, "more than " + std::to_string(kDeepestYaml) + " levels deep"});
  } catch (const YAML::Exception& error) {
    problems.push_back({to_mark(error.mark), explain(error, text)});
  }
  return root;
}

}  // namespace outbox
