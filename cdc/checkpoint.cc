#include "cdc/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace outbox {

namespace {

constexpr int version = 1;

}  // namespace

std::string encode(const Checkpoint& checkpoint) {
  nlohmann::ordered_json json;
  json["version"] = version;
  json["system_identifier"] = checkpoint.identity.system_identifier;
  json["timeline"] = checkpoint.identity.timeline;
  json["flushed_lsn"] = to_string(checkpoint.progress.flushed);
  if (const auto& last = checkpoint.progress.last) {
    json["commit_lsn"] = to_string(last->commit_lsn);
    if (last->records != DeliveredPart::all) json["records"] = last->records;
    json["complete"] = last->records == DeliveredPart::all;
    json["xid"] = last->xid;
    json["commit_time_us"] = to_postgres_time(last->commit_time);
  }
  return json.dump();
}

std::optional<Checkpoint> decode_checkpoint(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("version").get<int>() != version) return std::nullopt;
    const auto lsn = [&](const char* name) { return parse_lsn(json.at(name).get<std::string>()); };
    const auto flushed = lsn("flushed_lsn");
    if (!flushed) return std::nullopt;
    Checkpoint checkpoint{.identity = {.system_identifier = json.at("system_identifier").get<std::string>(),
                                       .timeline = json.at("timeline").get<std::string>()},
                          .progress = {.flushed = *flushed, .last = std::nullopt}};
    if (json.contains("commit_lsn")) {
      const auto commit_lsn = lsn("commit_lsn");
      if (!commit_lsn) return std::nullopt;
      const bool complete = json.at("complete").get<bool>();
      checkpoint.progress.last = {.commit_lsn = *commit_lsn,
                                  .xid = json.at("xid").get<std::uint32_t>(),
                                  .commit_time = from_postgres_time(json.at("commit_time_us").get<std::int64_t>()),
                                  .records = complete ? DeliveredPart::all : json.at("records").get<std::uint64_t>()};
    }
    return checkpoint;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string checkpoint_key(const std::string& database, const std::string& slot) {
  return fmt::format("{}/{}", database, slot);
}

std::string transactional_id(const std::string& system_identifier, const std::string& database,
                             const std::string& slot) {
  return fmt::format("outbox-relay/{}/{}/{}", system_identifier, database, slot);
}

}  // namespace outbox
