// Claims about a configuration file as a whole: what is enough, and what is said of one that is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "config/load.h"
#include "config/schema.h"
#include "config/yaml_tree.h"
#include "tests/config_test_support.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

std::string load_errors(const std::string& path) {
  try {
    load_config(path, environment({}));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::string example_path() { return std::string(OUTBOX_SOURCE_DIR) + "/config/outbox-relay.example.yaml"; }

// The example with every key that is switched off (`#key:`) switched on.
std::string whole_example() {
  std::ifstream file(example_path());
  std::stringstream text;
  for (std::string line; std::getline(file, line);) {
    const std::size_t hash = line.find_first_not_of(' ');
    if (hash + 1 < line.size() && line[hash] == '#' && line[hash + 1] != ' ') line.erase(hash, 1);
    text << line << '\n';
  }
  return text.str();
}

void collect_paths(const YamlNode& node, const std::string& path, std::vector<std::string>& into) {
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const bool in_list = node.kind == YamlNode::Kind::list;
    const std::string below = in_list ? path + "[]" : path + (path.empty() ? "" : ".") + node.keys[i].text;
    into.push_back(below);
    collect_paths(node.items[i], below, into);
  }
}

TEST(ConfigFile, FiveLinesAreEnough) {
  const Config config = parse(
      "version: 1\n"
      "source:\n"
      "  database: shop\n"
      "sink:\n"
      "  kafka: {brokers: [\"k1:9092\"]}\n");
  EXPECT_EQ(config.file, "f.yaml");
  EXPECT_EQ(config.source.database, "shop");
  EXPECT_EQ(config.source.slot.name, "outbox");
  EXPECT_EQ(config.source.slot.create, CreatePolicy::never);
  EXPECT_EQ(config.sink.kafka->brokers, std::vector<std::string>{"k1:9092"});
  ASSERT_EQ(config.outbox.size(), 1u);
  EXPECT_EQ(config.outbox[0].table.schema + "." + config.outbox[0].table.name, "public.outbox_events");
  EXPECT_EQ(shown(config.outbox[0].route.topic), "outbox.event.<aggregate_type>");
  EXPECT_EQ(shown(config.outbox[0].route.key), "<aggregate_id>");
  ASSERT_EQ(config.outbox[0].route.headers.size(), 2u);
  EXPECT_EQ(config.outbox[0].route.headers[0].name, "id");
  EXPECT_EQ(shown(config.outbox[0].route.headers[1].value), "<event_type>");
  EXPECT_FALSE(config.outbox[0].route.partition);
  EXPECT_TRUE(config.http.enabled);
  EXPECT_EQ(config.shutdown.grace, milliseconds(20000));
}

TEST(ConfigFile, TheExampleLoadsAndSaysNothingButTheDefaultsWhereItClaimsSo) {
  const Config example = load_config(example_path(), environment({}));
  const Config minimal = parse(kBase);
  EXPECT_EQ(example.source.password_file, "/etc/outbox-relay/pg-password");
  EXPECT_EQ(example.source.slot.name, minimal.source.slot.name);
  EXPECT_EQ(example.source.publication.name, minimal.source.publication.name);
  EXPECT_EQ(shown(example.outbox[0].route.topic), shown(minimal.outbox[0].route.topic));
  EXPECT_EQ(shown(example.outbox[0].route.key), shown(minimal.outbox[0].route.key));
  EXPECT_EQ(example.outbox[0].route.headers.size(), minimal.outbox[0].route.headers.size());
  EXPECT_EQ(example.outbox[0].on_null.key, minimal.outbox[0].on_null.key);
  EXPECT_EQ(example.outbox[0].on_null.payload, minimal.outbox[0].on_null.payload);
  EXPECT_EQ(example.outbox[0].columns.payload, minimal.outbox[0].columns.payload);
  EXPECT_EQ(example.http.host, minimal.http.host);
  EXPECT_EQ(example.http.port, minimal.http.port);
  EXPECT_EQ(example.http.unready_after, minimal.http.unready_after);
  EXPECT_EQ(example.log.level, minimal.log.level);
  EXPECT_EQ(example.log.format, minimal.log.format);
  EXPECT_EQ(example.shutdown.grace, minimal.shutdown.grace);
}

TEST(ConfigFile, TheExampleHasEveryKeyOfTheSchema) {
  std::vector<ConfigProblem> problems;
  std::vector<std::string> paths;
  collect_paths(parse_yaml(whole_example(), problems), "", paths);
  EXPECT_TRUE(problems.empty());
  for (const std::string& key : known_keys()) EXPECT_NE(std::find(paths.begin(), paths.end(), key), paths.end()) << key;
}

TEST(ConfigFile, TheExampleWithEveryKeySwitchedOnHasOnlyTheTwoConflictsThatItNames) {
  const std::string said = errors(whole_example(), {{"PGPASSWORD_OF_RELAY", "x"}});
  EXPECT_TRUE(contains(said, "source.password_file: stands beside \"password\"; keep one of the two\n"));
  EXPECT_TRUE(contains(said, "sink: \"kafka\" and \"stdout\" stand here; a relay has exactly one sink"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(ConfigFile, EveryKeyOfTheSchemaIsReadAndItsTypeIsChecked) {
  for (const std::string& key : known_keys()) {
    std::string text = "[[[]]]";  // Neither a text nor a mapping, nor a list of one of them.
    std::string path = key;
    while (!path.empty()) {
      const std::size_t dot = path.rfind('.');
      std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
      if (name.ends_with("[]")) {
        name.resize(name.size() - 2);
        text = "[" + text + "]";
      }
      text = "{" + name + ": " + text + "}";
      path.resize(dot == std::string::npos ? 0 : dot);
    }
    const std::string said = errors(text);
    const std::string message = ": " + replaced(key, "[]", "[0]");
    EXPECT_TRUE(contains(said, message + ": expected") || contains(said, message + "[0]: expected")) << key << "\n"
                                                                                                     << said;
  }
}

TEST(ConfigErrors, AllAreSaidInOneRunInTheOrderOfTheFile) {
  EXPECT_EQ(errors("version: 1\n"
                   "source:\n"
                   "  hots: db\n"
                   "  slot: {name: Outbox}\n"
                   "sink:\n"
                   "  kafka: {brokers: [k1]}\n"
                   "log: {level: warning}\n"
                   "shutdown: {grace: 20}\n"),
            "f.yaml:2:1: source: \"database\" is required: the database whose outbox is read\n"
            "f.yaml:3:3: unknown key \"hots\" in source; did you mean \"host\"? (known here: host, "
            "port, database, "
            "user, password, password_file, libpq, publication, slot, release_on_shutdown_after)\n"
            "f.yaml:4:16: source.slot.name: expected 1 to 63 of a-z, 0-9 and _ (what PostgreSQL "
            "allows in a slot's "
            "name), found \"Outbox\"\n"
            "f.yaml:6:21: sink.kafka.brokers[0]: expected host:port or [ipv6]:port with a port "
            "from 1 to 65535, found "
            "\"k1\"\n"
            "f.yaml:7:14: log.level: expected debug, info, warn or error, found \"warning\"; did "
            "you mean warn?\n"
            "f.yaml:8:19: shutdown.grace: expected a duration such as 500ms, 20s, 5m or 1h; the "
            "unit is missing, found "
            "\"20\"");
}

TEST(ConfigErrors, AnEmptyFileSaysWhatIsRequired) {
  EXPECT_EQ(errors(""),
            "f.yaml:1:1: \"version\" is required: version: 1\n"
            "f.yaml:1:1: \"source\" is required, with at least source.database\n"
            "f.yaml:1:1: \"sink\" is required, with \"kafka\" or \"stdout\" in it");
}

TEST(ConfigErrors, AnotherVersionIsTheOnlyProblemSinceItsKeysCannotBeJudged) {
  EXPECT_EQ(errors("version: 2\nshards: 3\n"),
            "f.yaml:1:10: version: this binary understands version 1 only, found \"2\"");
}

TEST(ConfigErrors, SyntaxErrorsHaveTheirPlace) {
  EXPECT_EQ(errors("version: 1\na: b: c\n"), "f.yaml:2:5: not valid YAML: illegal map value");
  EXPECT_EQ(errors("source: {password: \"a\\q\"}\n"), "f.yaml:1:24: not valid YAML: unknown escape character");
  EXPECT_EQ(errors("defaults: {route: {key: ${id}}}\n"),
            "f.yaml:1:26: not valid YAML: end of map flow not found; inside { } and [ ] a text "
            "with ${…} needs quotes");
}

TEST(ConfigErrors, AFileThatCannotBeReadIsNamedWithTheReason) {
  EXPECT_EQ(load_errors("/nonexistent/f.yaml"), "/nonexistent/f.yaml: cannot be read: No such file or directory");
  EXPECT_EQ(load_errors("/"), "/: cannot be read: Is a directory");
  EXPECT_EQ(load_errors("/dev/zero"), "/dev/zero: is larger than 1024 KiB");
}

TEST(ConfigErrors, DuplicateKeysAreRefusedAtEveryLevel) {
  EXPECT_EQ(errors(kBase + "log:\n  level: info\n  level: warn\nlog: {}\n"),
            "f.yaml:6:3: duplicate key \"level\"; it stands in line 5 already\n"
            "f.yaml:7:1: duplicate key \"log\"; it stands in line 4 already");
  EXPECT_EQ(errors(kafka("linger.ms: 1\n      linger.ms: 2")),
            "f.yaml:8:7: duplicate key \"linger.ms\"; it stands in line 7 already");
  EXPECT_EQ(errors(kBase + "defaults:\n  route:\n    headers:\n      a: x\n      a: y\n"),
            "f.yaml:8:7: duplicate key \"a\"; it stands in line 7 already");
}

TEST(ConfigErrors, AMisplacedKeyIsToldWhereItBelongs) {
  EXPECT_TRUE(contains(errors(kBase + "brokers: []\n"),
                       "f.yaml:4:1: unknown key \"brokers\" at the top level; did you mean "
                       "sink.kafka.brokers?"));
  EXPECT_TRUE(contains(errors(kBase + "defaults: {table: {}}\n"),
                       "f.yaml:4:12: unknown key \"table\" in defaults; did you mean outbox[].table?"));
}

TEST(ConfigErrors, WrongTypesSayWhatWasExpectedAndFound) {
  EXPECT_EQ(errors(kBase + "log: verbose\n"), "f.yaml:4:6: log: expected a mapping (key: value), found \"verbose\"");
  EXPECT_EQ(errors(kBase + "log: {level: [info]}\n"), "f.yaml:4:14: log.level: expected a text, found a list");
  EXPECT_EQ(errors(kBase + "log:\n  level:\n"), "f.yaml:5:3: log.level: expected a text, found nothing");
  EXPECT_EQ(errors(kBase + "outbox: {table: {}}\n"),
            "f.yaml:4:9: outbox: expected a list of entries (- table: …), found a mapping");
  EXPECT_EQ(errors("- 1\n"), "f.yaml:1:1: expected a mapping (key: value), found a list");
}

TEST(ConfigErrors, AMappingThatIsLeftEmptyHasNoKeys) {
  EXPECT_EQ(errors(kBase + "log:\nhttp: ~\ndefaults:\n  route:\n"), "");
}

TEST(ConfigErrors, YamlThatHasNoUseHereIsRefused) {
  EXPECT_EQ(errors(kBase + "log: &a {level: info}\n"),
            "f.yaml:4:6: anchors (&name) are not supported; what entries share goes into \"defaults\"");
  EXPECT_TRUE(contains(errors(kBase + "log: &a {level: info}\nhttp: *a\n"), "f.yaml:5:7: aliases (*name) are not"));
  EXPECT_EQ(errors(kBase + "log: {level: !!str info}\n"), "f.yaml:4:14: tags (!name) are not supported");
  EXPECT_EQ(errors(kBase + "---\nlog: {}\n"), "f.yaml:5:1: a second document; the file has to be a single one");
  EXPECT_EQ(errors(kBase + "? [a]\n: b\n"), "f.yaml:4:3: a key must be text");
  EXPECT_EQ(errors(kBase + "log: \x04\n"),
            "f.yaml:4:6: a control character; in double quotes it can be written as an escape such "
            "as \\x1b");
  EXPECT_EQ(errors(kBase + "log: \xff\n"), "f.yaml:4:6: not valid UTF-8");
}

TEST(ConfigErrors, DepthAndSizeAreBounded) {
  EXPECT_TRUE(contains(errors(std::string(500'000, '[')), ": more than 50 levels deep"));
  auto lists = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_FALSE(contains(errors(lists(50)), "levels deep"));
  EXPECT_EQ(errors(lists(51)), "f.yaml:1:51: more than 50 levels deep");
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "- ";
  EXPECT_EQ(errors(nested), "f.yaml:1:101: more than 50 levels deep");
  EXPECT_EQ(errors(std::string(1024 * 1024 + 1, ' ')), "f.yaml: is larger than 1024 KiB");
}

TEST(ConfigErrors, OneProblemIsOneLineWhateverTheFileHolds) {
  const std::string said = errors(kBase + "\"a\\nb\\x1b\": 1\nlog: {level: \"x\\n" + std::string(200, 'y') + "\"}\n");
  EXPECT_TRUE(contains(said, "unknown key \"a\\x0ab\\x1b\""));
  EXPECT_TRUE(contains(said, "found \"x\\x0ayyy"));
  EXPECT_TRUE(contains(said, "y…\""));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace outbox
