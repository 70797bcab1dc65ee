#include "cdc/conninfo.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdc/exit_codes.h"
#include "config/nearest.h"
#include "config/read_file.h"

namespace outbox {

namespace {

// Settings of a role, a database or a file would otherwise change the text that pgoutput writes, and so the payload's
// bytes, or keep back the warning that PostgreSQL 18 passes over a missing publication. PostgreSQL takes the last word.
constexpr const char* pinned_settings =
    "-c datestyle=ISO,YMD -c intervalstyle=postgres -c timezone=UTC -c bytea_output=hex -c extra_float_digits=1 "
    "-c client_min_messages=warning";

// Bounds how long a slot stays taken behind a dead network; a file may set another.
constexpr const char* default_settings = "-c wal_sender_timeout=30s";

std::string read_password(const std::string& path) {
  auto content = read_secret_file(path);
  if (const auto* bad = std::get_if<BadFile>(&content)) {
    throw FatalError(ExitCode::config, fmt::format("source.password_file {}: {}", path, bad->message));
  }
  auto password = std::get<std::string>(std::move(content));
  if (password.ends_with('\r')) password.pop_back();
  return password;
}

bool given(const SourceConfig& source, const char* keyword) {
  return std::any_of(source.libpq.begin(), source.libpq.end(),
                     [&](const Property& each) { return each.name == keyword; });
}

std::string libpq_value(const SourceConfig& source, const char* keyword) {
  for (const auto& each : source.libpq) {
    if (each.name == keyword) return each.value;
  }
  return {};
}

}  // namespace

std::string application_name(const SourceConfig& source) {
  const auto name = libpq_value(source, "application_name");
  return name.empty() ? "outbox-relay" : name;
}

ConnectionKeywords connection_keywords(const SourceConfig& source, ConnectionKind kind) {
  // Dead peers are noticed: a server that vanished without a word is given up after half a minute.
  ConnectionKeywords keywords{{"keepalives_idle", "10"},
                              {"keepalives_interval", "5"},
                              {"keepalives_count", "3"},
                              {"tcp_user_timeout", "30000"},
                              {"connect_timeout", "10"}};
  std::erase_if(keywords, [&](const auto& each) { return given(source, each.first.c_str()); });
  for (const auto& each : source.libpq) {
    if (each.name != "options" && each.name != "application_name") {
      keywords.emplace_back(each.name, each.value);
    }
  }
  const auto add = [&](const char* keyword, const std::string& value) {
    if (!value.empty()) keywords.emplace_back(keyword, value);
  };
  add("host", source.host);
  add("port", source.port);
  add("dbname", source.database);
  add("user", source.user);
  add("password", source.password_file.empty() ? source.password : read_password(source.password_file));
  add("client_encoding", "UTF8");
  add("application_name", application_name(source));
  add("options", fmt::format("{} {} {}", default_settings, libpq_value(source, "options"), pinned_settings));
  if (kind == ConnectionKind::replication) add("replication", "database");
  return keywords;
}

PgConnectionHandle start_connection(const ConnectionKeywords& keywords) {
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : keywords) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  PgConnectionHandle handle(PQconnectStartParams(names.data(), values.data(), 0));
  if (!handle) throw std::bad_alloc();
  return handle;
}

void check_libpq_keywords(const SourceConfig& source, std::vector<ConfigProblem>& problems) {
  const PgOptions known(PQconndefaults());
  std::vector<std::string_view> keywords;
  for (const auto* option = known.get(); option->keyword != nullptr; ++option) keywords.emplace_back(option->keyword);
  for (const auto& each : source.libpq) {
    if (std::find(keywords.begin(), keywords.end(), each.name) != keywords.end()) continue;
    problems.push_back(
        {each.mark, fmt::format("source.libpq.{}: libpq {}.{} has no such keyword{}", each.name, PQlibVersion() / 10000,
                                PQlibVersion() % 10000, suggest_nearest(each.name, keywords))});
  }
}

}  // namespace outbox
