// Claims about the sections of a configuration: names, addresses, inheritance, templates, the environment.
#include <gtest/gtest.h>

#include "config/load.h"
#include "tests/config_test_support.h"

namespace outbox {
namespace {

TEST(ConfigNames, AreCheckedAgainstWhatPostgreSqlTakes) {
  auto table = [](const std::string& name) { return errors(kBase + "outbox: [{table: {name: \"" + name + "\"}}]\n"); };
  EXPECT_EQ(table(std::string(63, 'x')), "");
  EXPECT_EQ(table(std::string(64, 'x')),
            "f.yaml:4:25: outbox[0].table.name: a name in PostgreSQL has at most 63 bytes, this "
            "one has 64");
  EXPECT_EQ(table(""), "f.yaml:4:25: outbox[0].table.name: cannot be empty");
  EXPECT_EQ(table("a\\0b"), "f.yaml:4:25: outbox[0].table.name: a NUL byte cannot be in here");
  EXPECT_EQ(table("Größe \\\"x\\\""), "");
  EXPECT_EQ(errors("version: 1\nsource: {database: \"${env:D}\"}\nsink: {stdout: }\n", {{"D", "\xff"}}),
            "f.yaml:2:20: source.database: a name must be valid UTF-8");
  for (const char* slot : {"a-b", "ä", "A"}) {
    EXPECT_TRUE(contains(
        errors("version: 1\nsource: {database: d, slot: {name: " + std::string(slot) + "}}\nsink: {stdout: }\n"),
        "source.slot.name: expected 1 to 63 of a-z"));
  }
}

TEST(ConfigSource, TakesHostsAndPortsAsLibpqDoes) {
  auto source = [](const std::string& keys) {
    return "version: 1\nsource: {database: d, " + keys + "}\nsink: {stdout: {}}\n";
  };
  EXPECT_EQ(parse(source("host: \"a,b\", port: \"5432,5433\"")).source.port, "5432,5433");
  EXPECT_EQ(errors(source("port: 70000")),
            "f.yaml:2:29: source.port: expected a port from 1 to 65535, or one for each host with "
            "commas between "
            "them, found \"70000\"");
  EXPECT_EQ(errors(source("host: a, port: \"1,2\"")),
            "f.yaml:2:38: source.port: expected one port for all hosts or one for each of them");
  EXPECT_EQ(errors(source("password: a, password_file: b")),
            "f.yaml:2:51: source.password_file: stands beside \"password\"; keep one of the two");
  EXPECT_EQ(errors(source("password_file: \"\"")), "f.yaml:2:38: source.password_file: cannot be empty");
  EXPECT_EQ(parse(source("password_file: /nonexistent")).source.password_file, "/nonexistent");
  EXPECT_EQ(parse(source("slot: {create: if_missing}")).source.slot.create, CreatePolicy::if_missing);
}

TEST(ConfigSink, IsExactlyOne) {
  const std::string start = "version: 1\nsource: {database: d}\n";
  EXPECT_EQ(errors(start + "sink: {}\n"), "f.yaml:3:1: sink: \"kafka\" or \"stdout\" is required");
  EXPECT_EQ(errors(start + "sink: {stdout: {}, kafka: {brokers: [\"k:1\"]}}\n"),
            "f.yaml:3:1: sink: \"kafka\" and \"stdout\" stand here; a relay has exactly one sink");
  EXPECT_EQ(errors(start + "sink: {kafka: {}}\n"),
            "f.yaml:3:8: sink.kafka: \"brokers\" is required, such as brokers: [\"kafka1:9092\"]");
  EXPECT_EQ(errors(start + "sink: {kafka: {brokers: []}}\n"),
            "f.yaml:3:25: sink.kafka.brokers: needs at least one broker");
  EXPECT_EQ(errors(start + "sink: {kafka: {brokers: \"k:1\"}}\n"),
            "f.yaml:3:25: sink.kafka.brokers: expected a list of brokers, such as "
            "[\"kafka1:9092\", \"kafka2:9092\"], "
            "found \"k:1\"");
  EXPECT_EQ(errors(start + "sink: {kafka: {brokers: [\"[::1]:9092\"]}}\n"), "");
  for (const char* broker : {"k:0", "k:65536", "k:", ":1", "::1:9092", "SSL://k:1", "a:1,b:2", "[k]:1", "k:1x"}) {
    EXPECT_TRUE(contains(errors(start + "sink: {kafka: {brokers: [\"" + broker + "\"]}}\n"), "expected host:port"))
        << broker;
  }
}

TEST(ConfigHttp, ListensWhereItIsToldOrNotAtAll) {
  EXPECT_EQ(parse(kBase + "http: {listen: \"[::1]:9465\"}\n").http.host, "::1");
  EXPECT_EQ(parse(kBase + "http: {listen: \"0.0.0.0:80\"}\n").http.port, 80);
  EXPECT_FALSE(parse(kBase + "http: {listen: off}\n").http.enabled);
  EXPECT_EQ(errors(kBase + "http: {listen: 9464}\n"),
            "f.yaml:4:16: http.listen: expected host:port such as 127.0.0.1:9464 or [::1]:9464, or "
            "off, found \"9464\"");
  EXPECT_TRUE(contains(errors(kBase + "http: {unready_after: 0s}\n"), "f.yaml:4:23: http.unready_after: must be more"));
}

TEST(ConfigOutbox, AnEntryWinsOverDefaultsWhichWinOverWhatIsBuiltIn) {
  const Config config = parse(kBase +
                              "defaults:\n"
                              "  columns: {id: event_id, payload: body}\n"
                              "  route: {topic: \"all\", partition: \"${shard}\"}\n"
                              "  on_null: {key: send}\n"
                              "outbox:\n"
                              "  - table: {name: a}\n"
                              "    columns: {payload: data}\n"
                              "    route: {key: \"${id}\", headers: {only: \"${event_type}\"}}\n"
                              "  - table: {schema: s, name: a}\n"
                              "    on_null: {key: halt, payload: empty}\n");
  const OutboxConfig& a = config.outbox[0];
  const OutboxConfig& b = config.outbox[1];
  EXPECT_EQ(a.columns.id + " " + a.columns.payload + " " + a.columns.event_type, "event_id data event_type");
  EXPECT_EQ(shown(a.route.topic) + " " + shown(a.route.key) + " " + shown(*a.route.partition), "all <id> <shard>");
  ASSERT_EQ(a.route.headers.size(), 1u);  // Replaced whole.
  EXPECT_EQ(a.route.headers[0].name, "only");
  EXPECT_EQ(a.on_null.key, NullKey::send);
  EXPECT_EQ(a.on_null.payload, NullPayload::tombstone);
  EXPECT_EQ(b.columns.payload, "body");
  EXPECT_EQ(b.route.headers.size(), 2u);
  EXPECT_EQ(b.on_null.key, NullKey::halt);
  EXPECT_EQ(b.on_null.payload, NullPayload::empty);
  EXPECT_EQ(b.mark.line, 12);
  EXPECT_EQ(b.route.topic.mark.line, 6);
}

TEST(ConfigOutbox, DefaultsReachTheEntryThatIsNotWritten) {
  EXPECT_EQ(shown(parse(kBase + "defaults: {route: {topic: all}}\n").outbox.at(0).route.topic), "all");
}

TEST(ConfigOutbox, OneTableHasOneEntry) {
  EXPECT_EQ(errors(kBase + "outbox:\n  - {}\n  - table: {schema: public}\n"),
            "f.yaml:6:5: outbox[1]: the table public.outbox_events has its entry in line 5 already");
  EXPECT_TRUE(contains(errors(kBase + "outbox: []\n"), "f.yaml:4:9: outbox: needs at least one entry"));
}

std::string route_errors(const std::string& route) { return errors(kBase + "defaults: {route: {" + route + "}}\n"); }

TEST(ConfigTemplate, MixesTextColumnsAndTheEnvironment) {
  const Config config = parse(kBase +
                                  "defaults:\n"
                                  "  route:\n"
                                  "    topic: ${env:STAGE}.${kind}.${env:UNSET:-x-y}\n"
                                  "    headers: {none: \"\", escaped: \"$${id} $ $$\", two words: \"${a b}\"}\n",
                              {{"STAGE", "live"}});
  const RouteConfig& route = config.outbox[0].route;
  EXPECT_EQ(shown(route.topic), "live.<kind>.x-y");
  EXPECT_EQ(route.topic.pieces.size(), 3u);
  EXPECT_EQ(shown(route.headers[0].value), "");
  EXPECT_EQ(shown(route.headers[1].value), "${id} $ $$");
  EXPECT_EQ(shown(route.headers[2].value), "<a b>");
}

TEST(ConfigTemplate, RefusesWhatCannotBeATopicKeyOrPartition) {
  EXPECT_EQ(route_errors("topic: \"\""), "f.yaml:4:27: defaults.route.topic: a topic cannot be empty");
  EXPECT_TRUE(contains(route_errors("topic: \"a b\""), "defaults.route.topic: a topic's name has only letters"));
  EXPECT_EQ(route_errors("topic: ..."), "");
  EXPECT_TRUE(contains(route_errors("topic: \"..\""), "Kafka allows no topic named"));
  EXPECT_TRUE(contains(route_errors("key: \"\""), "defaults.route.key: a key cannot be empty"));
  EXPECT_EQ(route_errors("partition: 3"), "");
  EXPECT_TRUE(
      contains(route_errors("partition: -1"), "f.yaml:4:31: defaults.route.partition: a partition is a number"));
  EXPECT_TRUE(contains(route_errors("headers: {\"\": x}"), "defaults.route.headers[]: a header needs a name"));
  EXPECT_TRUE(contains(route_errors("headers: "), "expected a mapping (name: value, or {} for none), found nothing"));
  EXPECT_EQ(route_errors("headers: {}"), "");
}

TEST(ConfigTemplate, RefusesBracesThatNameNothing) {
  EXPECT_TRUE(contains(route_errors("key: \"a${\""), "f.yaml:4:25: defaults.route.key: a ${ is not closed by a }"));
  EXPECT_TRUE(contains(route_errors("key: \"${a${b}\""), "a ${ is not closed by a }"));
  EXPECT_TRUE(contains(route_errors("key: \"${}\""), "${} names nothing"));
  EXPECT_TRUE(contains(route_errors("key: \"${ id }\""), "takes the name without spaces"));
  EXPECT_TRUE(contains(route_errors("key: \"${evn:X}\""), "with a colon is understood only as ${env:NAME}"));
  EXPECT_TRUE(contains(route_errors("key: \"${" + std::string(64, 'x') + "}\""), "at most 63 bytes"));
}

std::string host(const std::string& written, std::map<std::string, std::string> variables = {}) {
  return parse("version: 1\nsource: {database: d, host: '" + written + "'}\nsink: {stdout: {}}\n", std::move(variables))
      .source.host;
}

TEST(ConfigEnvironment, IsPutInOnceAndNeverLookedAtAgain) {
  EXPECT_EQ(host("${env:H}", {{"H", "a${b}"}}), "a${b}");
  EXPECT_EQ(host("${env:H}", {{"H", "${env:H}$${"}}), "${env:H}$${");
  EXPECT_EQ(host("${env:A}${env:B}", {{"A", "$"}, {"B", "{x}"}}), "${x}");
  EXPECT_EQ(host("x${env:H:-a:-b}y"), "xa:-by");
  EXPECT_EQ(host("${env:H:-default}", {{"H", ""}}), "default");
  EXPECT_EQ(host("$${env:H} $x $$ 5$"), "${env:H} $x $$ 5$");
  const Config config = parse(kBase + "defaults: {route: {key: \"${env:K}\"}}\n", {{"K", "${id}"}});
  ASSERT_EQ(config.outbox[0].route.key.pieces.size(), 1u);
  EXPECT_EQ(config.outbox[0].route.key.pieces[0].kind, Template::Piece::Kind::literal);
}

TEST(ConfigEnvironment, RefusesWhatIsUnsetMisspeltOrMisplaced) {
  auto level = [](const std::string& text) { return errors(kBase + "log: {level: \"" + text + "\"}\n", {{"E", ""}}); };
  EXPECT_EQ(level("${env:LEVEL}"),
            "f.yaml:4:14: log.level: the environment variable LEVEL is not set; set it, or write "
            "${env:LEVEL:-default}");
  EXPECT_EQ(level("${env:E}"), "f.yaml:4:14: log.level: is empty once the environment is put in");
  EXPECT_TRUE(contains(level("${env:1-2}"), "${env:…} needs the name of a variable"));
  EXPECT_EQ(level("${env:X"),
            "f.yaml:4:14: log.level: a ${ is not closed by a }; write $${ for the characters themselves");
  EXPECT_EQ(level("${id}"),
            "f.yaml:4:14: log.level: ${id} is for topic, key, partition and headers of a route "
            "only; here ${env:NAME} is "
            "understood, and $${ stands for the characters themselves");
}

}  // namespace
}  // namespace outbox
