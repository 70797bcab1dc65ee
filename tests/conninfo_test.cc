// Claims about how the relay connects to PostgreSQL.
#include "cdc/conninfo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "cdc/exit_codes.h"
#include "tests/config_test_support.h"

namespace outbox {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

SourceConfig source_of(const std::string& more) {
  return parse("version: 1\nsink: {stdout: {}}\nsource: {database: shop" + more + "}\n").source;
}

// The value of a keyword as libpq takes it, where the last one wins; "-" where it is not given.
std::string value_of(const SourceConfig& source, const std::string& keyword,
                     ConnectionKind kind = ConnectionKind::replication) {
  std::string found = "-";
  for (const auto& [name, value] : connection_keywords(source, kind)) {
    if (name == keyword) found = value;
  }
  return found;
}

TEST(ConnInfo, CarriesWhatTheSourceSays) {
  const auto source = source_of(", host: /run/postgresql, port: \"5433\", user: relay, password: secret");
  EXPECT_EQ(value_of(source, "host"), "/run/postgresql");
  EXPECT_EQ(value_of(source, "port"), "5433");
  EXPECT_EQ(value_of(source, "dbname"), "shop");
  EXPECT_EQ(value_of(source, "user"), "relay");
  EXPECT_EQ(value_of(source, "password"), "secret");
}

TEST(ConnInfo, LeavesToLibpqWhatIsNotSaid) {
  for (const char* keyword : {"host", "port", "user", "password"}) EXPECT_EQ(value_of(source_of(""), keyword), "-");
}

// E7: settings of a role or a database would change the text that pgoutput writes.
TEST(ConnInfo, PinsEverySettingThatChangesTheTextOfAValue) {
  const auto options = value_of(source_of(""), "options");
  for (const char* setting : {"datestyle=ISO", "intervalstyle=postgres", "timezone=UTC", "bytea_output=hex",
                              "extra_float_digits=1", "wal_sender_timeout="}) {
    EXPECT_THAT(options, HasSubstr(std::string("-c ") + setting));
  }
  EXPECT_EQ(value_of(source_of(""), "client_encoding"), "UTF8");
}

TEST(ConnInfo, WhatAFileSaysOfOptionsWinsButForWhatIsPinned) {
  const auto options =
      value_of(source_of(", libpq: {options: '-c wal_sender_timeout=5s -c bytea_output=escape'}"), "options");
  EXPECT_LT(options.find("wal_sender_timeout=30s"), options.find("wal_sender_timeout=5s"));
  EXPECT_LT(options.find("bytea_output=escape"), options.find("bytea_output=hex"));
}

TEST(ConnInfo, WhatAFileSaysReplacesABuiltInKeyword) {
  const auto source = source_of(", libpq: {connect_timeout: 3, sslmode: verify-full}");
  EXPECT_EQ(value_of(source, "connect_timeout"), "3");
  EXPECT_EQ(value_of(source, "sslmode"), "verify-full");
  EXPECT_EQ(value_of(source_of(""), "keepalives_idle"), "10");
}

TEST(ConnInfo, NamesItself) {
  EXPECT_EQ(value_of(source_of(""), "application_name"), "outbox-relay");
  const auto named = source_of(", libpq: {application_name: mine}");
  EXPECT_EQ(application_name(named), "mine");
  EXPECT_EQ(value_of(named, "application_name"), "mine");
}

TEST(ConnInfo, OnlyAReplicationConnectionSaysSo) {
  EXPECT_EQ(value_of(source_of(""), "replication", ConnectionKind::replication), "database");
  EXPECT_EQ(value_of(source_of(""), "replication", ConnectionKind::plain), "-");
}

class PasswordFile : public testing::Test {
 protected:
  ~PasswordFile() override { std::remove(path.c_str()); }
  void write(const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), 0600);
  }
  std::string password() { return value_of(source_of(", password_file: '" + path + "'"), "password"); }

  const std::string path = testing::TempDir() + "outbox-relay-password-" + std::to_string(getpid());
};

TEST_F(PasswordFile, IsReadAgainAtEveryConnect) {
  write("old\n");
  const auto source = source_of(", password_file: '" + path + "'");
  EXPECT_EQ(value_of(source, "password"), "old");
  write("new");
  EXPECT_EQ(value_of(source, "password"), "new");
}

TEST_F(PasswordFile, LosesOnlyTheEndOfItsLine) {
  write(" with blanks \r\n");
  EXPECT_EQ(password(), " with blanks ");
}

TEST_F(PasswordFile, ThatCannotBeReadIsAConfigErrorThatNamesIt) {
  write("secret");
  const auto source = source_of(", password_file: '" + path + "'");
  std::remove(path.c_str());
  try {
    connection_keywords(source, ConnectionKind::plain);
    FAIL();
  } catch (const FatalError& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

TEST(ConnInfo, AKeywordThatLibpqDoesNotKnowIsNamedWithItsPlace) {
  std::vector<ConfigProblem> problems;
  check_libpq_keywords(source_of(", libpq: {sslmode: require, sslmood: require}"), problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("source.libpq.sslmood: libpq"));
  EXPECT_EQ(problems[0].mark.line, 3);
  EXPECT_GT(problems[0].mark.column, 1);
}

}  // namespace
}  // namespace outbox
