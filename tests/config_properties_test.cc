// Claims about secrets, about what libpq and librdkafka are handed, and about the small parsers below.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "config/load.h"
#include "config/nearest.h"
#include "config/properties.h"
#include "config/units.h"
#include "tests/config_test_support.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

class TemporaryFile {
 public:
  TemporaryFile(const std::string& content, mode_t mode) {
    const int descriptor = ::mkstemp(path_.data());
    EXPECT_EQ(::write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::fchmod(descriptor, mode);
    ::close(descriptor);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/config_test.XXXXXX";
};

TEST(ConfigSecrets, AreNeverShown) {
  const std::map<std::string, std::string> variables = {{"S", "hunter2!"}};
  auto source = [&](const std::string& keys) {
    return errors("version: 1\nsource: {database: d, " + keys + "}\nsink: {stdout: {}}\n", variables);
  };
  for (const std::string& said : {
           source("password: \"a${hunter2}\""),
           source("password: \"${hunter2\""),
           source("password: [hunter2]"),
           source("password: \"${env:hunter2 x}\""),
           source("password: \"${env:X:-hunter2\""),
           source("password: \"hunter2\\0\""),
           source("password: &hunter x"),
           source("libpq: {password: hunter2}"),
           source("libpq: {sslpassword: \"${hunter2}\"}"),
           source("libpq: {sslpassword_file: hunter2}"),
           source("slot: {name: \"${env:S}\"}"),
           source("slot: {create: \"${env:S}\"}"),
           errors(kafka("sasl.password: {hunter2: 1}")),
           errors(kafka("sasl.password: \"${hunter2}\"")),
           errors(kafka("ssl.key.pem: \"${hunter2}\"")),
           errors(kafka("sasl.password_file: hunter2")),
           errors(kafka("sasl.oauthbearer.client.secret: \"${hunter2}\"")),
       }) {
    EXPECT_NE(said, "");
    EXPECT_FALSE(contains(said, "hunter2"));
  }
}

TEST(ConfigSecrets, ComeFromFilesThatOthersCannotOpen) {
  const TemporaryFile good("s3cret\r\n", 0640), open("s3cret", 0644), empty("\n", 0600), two_lines("a\n\n", 0400);
  const Property property = parse(kafka("sasl.password_file: " + good.path())).sink.kafka->properties.at(0);
  EXPECT_EQ(property.name + "=" + property.value, "sasl.password=s3cret");
  EXPECT_EQ(property.mark.line, 7);
  EXPECT_EQ(parse(kafka("ssl.key.pem_file: " + two_lines.path())).sink.kafka->properties.at(0).value, "a\n");
  const std::string place = "f.yaml:7:27: sink.kafka.properties[sasl.password_file]: the file it names ";
  auto said = [](const std::string& path) { return errors(kafka("sasl.password_file: " + path)); };
  EXPECT_EQ(said(open.path()), place +
                                   "is open to every user of this machine; chmod o= it (a Kubernetes secret: "
                                   "defaultMode 0440)");
  EXPECT_EQ(said(empty.path()), place + "is empty");
  EXPECT_EQ(said("/nonexistent"), place + "cannot be read: No such file or directory");
  EXPECT_EQ(said("/dev/null"), place + "is not a regular file");
  EXPECT_EQ(errors(kafka("{sasl.password: x, sasl.password_file: " + good.path() + "}")),
            "f.yaml:7:26: sink.kafka.properties[sasl.password_file]: stands beside "
            "\"sasl.password\"; keep one of the "
            "two");
  EXPECT_EQ(errors(kafka("client.id_file: x")),
            "f.yaml:7:7: sink.kafka.properties[client.id_file]: is no property of librdkafka; only "
            "secrets can be read "
            "from a file this way");
}

TEST(ConfigProperties, ReachTheLibrariesAsTheyAreWritten) {
  const Config config =
      parse(kafka("linger.ms: 5\n      socket.keepalive.enable: yes\n      client.id: 007\n      debug: \"\""));
  const auto& properties = config.sink.kafka->properties;
  ASSERT_EQ(properties.size(), 4u);
  EXPECT_EQ(properties[1].value + " " + properties[2].value + " " + properties[3].value, "yes 007 ");
  const Config source = parse(
      "version: 1\nsource: {database: d, libpq: {application_name: x, options: -c a=b, passfile: "
      "f}}\n"
      "sink: {stdout: {}}\n");
  EXPECT_EQ(source.source.libpq.at(1).value, "-c a=b");
}

TEST(ConfigProperties, RefusedOnesAreNamedWithTheReason) {
  for (const auto& [name, reason] : kKafkaRules.refused) {
    const std::string property = replaced(std::string(name), "*", "x");
    EXPECT_EQ(errors(kafka(property + ": 1")),
              "f.yaml:7:7: sink.kafka.properties[" + property + "]: cannot be set: " + std::string(reason));
  }
  for (const auto& [name, reason] : kLibpqRules.refused) {
    EXPECT_EQ(
        errors("version: 1\nsource:\n  database: d\n  libpq:\n    " + std::string(name) + ": 1\nsink: {stdout: {}}\n"),
        "f.yaml:5:5: source.libpq[" + std::string(name) + "]: cannot be set: " + std::string(reason));
  }
}

TEST(ConfigProperties, NoneThatWouldBreakTheGuaranteeIsForgotten) {
  for (const char* name : {"bootstrap.servers",
                           "metadata.broker.list",
                           "enable.idempotence",
                           "acks",
                           "request.required.acks",
                           "message.timeout.ms",
                           "delivery.timeout.ms",
                           "retries",
                           "message.send.max.retries",
                           "max.in.flight",
                           "max.in.flight.requests.per.connection",
                           "queuing.strategy",
                           "partitioner",
                           "partitioner_cb",
                           "enable.gapless.guarantee",
                           "transactional.id",
                           "delivery.report.only.error",
                           "dr_cb",
                           "dr_msg_cb",
                           "error_cb",
                           "plugin.library.paths",
                           "opaque",
                           "log.queue",
                           "enabled_events",
                           "test.mock.num.brokers"}) {
    EXPECT_TRUE(find_refusal(kKafkaRules, name)) << name;
  }
  EXPECT_TRUE(contains(errors(kafka("\"acks\\0\": 0")), "a NUL byte cannot be in a name"));
  EXPECT_FALSE(find_refusal(kKafkaRules, "linger.ms"));
}

TEST(Nearest, CountsSwappedNeighboursOnceAndGivesUpOnOtherWords) {
  constexpr std::string_view words[] = {"host", "port", "publication"};
  EXPECT_EQ(find_nearest("hots", words), "host");
  EXPECT_EQ(find_nearest("PORT", words), "port");
  EXPECT_EQ(find_nearest("publicaton", words), "publication");
  EXPECT_EQ(find_nearest("xyz", words), std::nullopt);
  EXPECT_EQ(find_nearest("", words), std::nullopt);
  EXPECT_EQ(find_nearest(std::string(5000, 'h'), words), std::nullopt);
}

TEST(Units, DurationsNeedAUnitAndAreBounded) {
  EXPECT_EQ(std::get<milliseconds>(parse_duration("500ms")), milliseconds(500));
  EXPECT_EQ(std::get<milliseconds>(parse_duration("20s")), milliseconds(20'000));
  EXPECT_EQ(std::get<milliseconds>(parse_duration("5m")), milliseconds(300'000));
  EXPECT_EQ(std::get<milliseconds>(parse_duration("8760h")), milliseconds(31'536'000'000));
  for (const char* bad : {"", "s", "-1s", "1.5s", "1 s", "1S", "1d", "20", "8761h", "99999999999999999999s"}) {
    EXPECT_TRUE(std::holds_alternative<BadQuantity>(parse_duration(bad))) << bad;
  }
}

TEST(Units, SizesNeedAUnitAndAreBounded) {
  EXPECT_EQ(std::get<std::uint64_t>(parse_size("512B")), 512u);
  EXPECT_EQ(std::get<std::uint64_t>(parse_size("64MiB")), 64u << 20);
  EXPECT_EQ(std::get<std::uint64_t>(parse_size("1MB")), 1'000'000u);
  for (const char* bad : {"", "64", "64M", "1025GiB", "18446744073709551616B"}) {
    EXPECT_TRUE(std::holds_alternative<BadQuantity>(parse_size(bad))) << bad;
  }
}

}  // namespace
}  // namespace outbox
