// `status`: the slot as PostgreSQL sees it, and the running relay as it sees itself.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cdc/commands.h"
#include "cdc/http_endpoint.h"
#include "cdc/one_shot.h"
#include "cdc/provision.h"

namespace outbox {

namespace {

using Json = nlohmann::ordered_json;

std::uint64_t distance(Lsn from, Lsn to) { return to > from ? to.value - from.value : 0; }

Json slot_json(const Catalog& catalog, const std::string& name) {
  const auto& slot = *catalog.slot;
  Json json;
  json["name"] = name;
  json["active"] = slot.active;
  if (slot.active) json["active_pid"] = slot.active_pid;
  json["wal_status"] = slot.wal_status;
  if (!slot.invalidation_reason.empty()) json["invalidation_reason"] = slot.invalidation_reason;
  json["wal_end"] = to_string(catalog.wal_end);
  json["confirmed_flush_lsn"] = to_string(slot.confirmed_flush_lsn);
  json["restart_lsn"] = to_string(slot.restart_lsn);
  json["lag_bytes"] = distance(slot.confirmed_flush_lsn, catalog.wal_end);
  json["retained_bytes"] = slot.restart_lsn ? distance(slot.restart_lsn, catalog.wal_end) : 0;
  json["safe_wal_bytes"] = slot.safe_wal_bytes ? Json(*slot.safe_wal_bytes) : Json(nullptr);
  if (catalog.oldest_transaction) {
    const auto& oldest = *catalog.oldest_transaction;
    json["oldest_transaction"] = {
        {"pid", oldest.pid}, {"application_name", oldest.application_name}, {"state", oldest.state}};
  }
  return json;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
  if (bytes < 10 * 1024 * 1024) return fmt::format("{} KiB", bytes / 1024);
  return fmt::format("{} MiB", bytes / 1024 / 1024);
}

void print_slot(const Json& slot) {
  fmt::print("slot \"{}\": {}, wal_status {}\n", slot["name"].get<std::string>(),
             slot["active"].get<bool>() ? fmt::format("in use by PID {}", slot["active_pid"].get<std::int64_t>())
                                        : std::string("not in use"),
             slot["wal_status"].get<std::string>());
  fmt::print("  confirmed {} of {}: {} behind\n", slot["confirmed_flush_lsn"].get<std::string>(),
             slot["wal_end"].get<std::string>(), size_text(slot["lag_bytes"].get<std::uint64_t>()));
  fmt::print("  retains WAL from {}: {}\n", slot["restart_lsn"].get<std::string>(),
             size_text(slot["retained_bytes"].get<std::uint64_t>()));
  if (slot.contains("oldest_transaction")) {
    const auto& oldest = slot["oldest_transaction"];
    const auto name = oldest["application_name"].get<std::string>();
    fmt::print("  restart_lsn cannot pass the oldest open transaction: PID {} ({})\n",
               oldest["pid"].get<std::int64_t>(), name.empty() ? "unnamed" : name);
  }
  if (!slot["safe_wal_bytes"].is_null()) {
    fmt::print(
        "  {} of WAL until the slot is in danger\n",
        size_text(static_cast<std::uint64_t>(std::max<std::int64_t>(0, slot["safe_wal_bytes"].get<std::int64_t>()))));
  }
}

void print_relay(const Json& relay) {
  if (relay.is_null()) {
    fmt::print("relay: no answer at http.listen\n");
    return;
  }
  const auto reason = relay["reason"].get<std::string>();
  fmt::print("relay: {}{}{}\n", relay["state"].get<std::string>(), reason.empty() ? "" : ": ", reason);
  fmt::print("  {} events delivered, {:.0f} a second now, {:.3f} s from commit to acknowledgement\n",
             relay["events_delivered"].get<std::uint64_t>(), relay["events_per_second"].get<double>(),
             relay["commit_to_ack_seconds"].get<double>());
  fmt::print("  {} in flight, the oldest for {:.1f} s\n", relay["events_in_flight"].get<std::uint64_t>(),
             relay["oldest_unacked_seconds"].get<double>());
}

}  // namespace

ExitCode run_status(const Config& config, const StatusOptions& options) {
  EventLoop loop;
  PgConnection connection(connection_keywords(config.source, ConnectionKind::plain), loop, one_shot_deadline());
  const auto catalog = read_catalog(connection, config, one_shot_deadline());
  if (!catalog.slot) {
    throw FatalError(ExitCode::missing,
                     fmt::format("replication slot \"{}\" does not exist. Run outbox-relay init --config {}",
                                 config.source.slot.name, config.file));
  }
  Json out;
  out["slot"] = slot_json(catalog, config.source.slot.name);
  const auto answer = config.http.enabled ? http_get(config.http, "/status") : std::string();
  out["relay"] = Json::parse(answer, nullptr, false);
  if (out["relay"].is_discarded()) out["relay"] = nullptr;
  if (options.json) {
    fmt::print("{}\n", out.dump(2));
  } else {
    print_slot(out["slot"]);
    print_relay(out["relay"]);
  }
  return catalog.slot->lost() ? ExitCode::slot_lost : ExitCode::ok;
}

}  // namespace outbox
