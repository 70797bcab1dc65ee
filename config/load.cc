// YAML to Config, strictly: the walk from the top of a file, and all its problems in one exception.
#include "config/load.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "config/read_file.h"
#include "config/sections.h"
#include "config/yaml_reader.h"
#include "config/yaml_tree.h"

namespace outbox {
namespace {

constexpr std::size_t kLargestFile = 1024 * 1024;
constexpr const char* kVersion = "1";

// A problem with the file as a whole has no line to name.
std::string describe(const std::string& file, const std::vector<ConfigProblem>& problems) {
  std::string text;
  for (const auto& [mark, message] : problems) {
    if (!text.empty()) text += '\n';
    text += file + ":";
    if (mark.line > 0) text += std::to_string(mark.line) + ":" + std::to_string(mark.column) + ":";
    text += " " + message;
  }
  return text;
}

[[noreturn]] void throw_sorted(const std::string& file, std::vector<ConfigProblem> problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const ConfigProblem& left, const ConfigProblem& right) {
    return std::pair(left.mark.line, left.mark.column) < std::pair(right.mark.line, right.mark.column);
  });
  throw ConfigError(file, std::move(problems));
}

// False where the file is written for another binary: its other keys cannot be judged then.
bool read_version(const MapReader& root) {
  const auto value = root.find("version");
  if (!value) {
    root.refuse("\"version\" is required: version: 1");
    return true;
  }
  const auto version = value->text();
  if (!version || *version == kVersion) return true;
  value->refuse_found("this binary understands version 1 only");
  return false;
}

void read_log(const MapReader& log, LogConfig& into) {
  log.choice(
      "level", into.level,
      {{"debug", LogLevel::debug}, {"info", LogLevel::info}, {"warn", LogLevel::warn}, {"error", LogLevel::error}});
  log.choice("format", into.format, {{"text", LogFormat::text}, {"json", LogFormat::json}});
}

void read_root(const MapReader& root, Config& into) {
  if (!root.find("source")) root.refuse("\"source\" is required, with at least source.database");
  if (const auto source = root.map("source")) read_source(*source, into.source);
  into.outbox = read_outbox(root);
  if (!root.find("sink")) root.refuse("\"sink\" is required, with \"kafka\" or \"stdout\" in it");
  if (const auto sink = root.map("sink")) read_sink(*sink, into.sink);
  if (const auto delivery = root.map("delivery")) read_delivery(*delivery, into);
  if (const auto memory = root.map("memory")) read_memory(*memory, into.memory);
  if (const auto http = root.map("http")) read_http(*http, into.http);
  if (const auto log = root.map("log")) read_log(*log, into.log);
  if (const auto shutdown = root.map("shutdown")) shutdown->duration("grace", into.shutdown.grace);
}

}  // namespace

ConfigError::ConfigError(const std::string& file, std::vector<ConfigProblem> problems)
    : std::runtime_error(describe(file, problems)), problems_(std::move(problems)) {}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value) return std::nullopt;
    return value;
  };
}

Config load_config(const std::string& path, const Environment& environment, const FurtherChecks& further) {
  const auto content = read_file(path, kLargestFile);
  if (const auto* bad = std::get_if<BadFile>(&content)) throw ConfigError(path, {{{}, bad->message}});
  return parse_config(std::get<std::string>(content), path, environment, further);
}

Config parse_config(const std::string& text, const std::string& file, const Environment& environment,
                    const FurtherChecks& further) {
  std::vector<ConfigProblem> problems;
  if (text.size() > kLargestFile) throw ConfigError(file, {{{}, "is larger than 1024 KiB"}});
  const YamlNode tree = parse_yaml(text, problems);
  ReadContext context{.environment = environment, .problems = problems};
  Config config;
  config.file = file;
  const auto yaml_problems = static_cast<std::ptrdiff_t>(problems.size());
  if (const auto root = ValueReader(context, tree, Mark{1, 1}, "", "", false).map()) {
    if (read_version(*root)) {
      read_root(*root, config);
      if (further) further(config, problems);
    } else {
      problems.erase(problems.begin() + yaml_problems,
                     problems.end() - 1);  // Keys that only this version calls wrong.
    }
  }
  if (!problems.empty()) throw_sorted(file, std::move(problems));
  return config;
}

}  // namespace outbox
