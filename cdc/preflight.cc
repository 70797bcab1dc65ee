#include "cdc/preflight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cdc/conninfo.h"
#include "cdc/errors.h"

namespace outbox {

namespace {

using Severity = Finding::Severity;
using Subject = Finding::Subject;

std::string doubled(const std::string& text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    out += c;
    if (c == quote) out += c;
  }
  return out + quote;
}

class Examination {
 public:
  Examination(const Catalog& catalog, const Config& config) : catalog_(catalog), config_(config) {}

  std::vector<Finding> findings() {
    server();
    role();
    publication();
    for (std::size_t entry = 0; entry < config_.outbox.size(); ++entry) {
      table(config_.outbox[entry], catalog_.tables.at(entry));
    }
    slot();
    return std::move(findings_);
  }

 private:
  void add(Severity severity, Subject subject, ExitCode code, std::string text, std::string remedy = {}) {
    findings_.push_back({severity, subject, code, std::move(text), std::move(remedy)});
  }
  void ok(Subject subject, std::string text) { add(Severity::ok, subject, ExitCode::ok, std::move(text)); }

  void server() {
    ok(Subject::server, fmt::format("PostgreSQL {}, database {}", catalog_.server_version_text, catalog_.database));
    if (catalog_.server_version < 140000) {
      add(Severity::fatal, Subject::server, ExitCode::config,
          fmt::format("PostgreSQL {} is older than 14", catalog_.server_version_text), "Upgrade the server");
    }
    if (catalog_.wal_level != "logical") {
      add(Severity::fatal, Subject::server, ExitCode::config, fmt::format("wal_level is {}", catalog_.wal_level),
          "Run ALTER SYSTEM SET wal_level = logical; and restart the server");
    }
    const auto name = application_name(config_.source);
    if (counts_as_synchronous(catalog_.synchronous_standby_names, name)) {
      add(Severity::fatal, Subject::server, ExitCode::config,
          fmt::format("synchronous_standby_names = '{}' counts the relay ({}) as a synchronous standby: every commit "
                      "would wait for Kafka",
                      catalog_.synchronous_standby_names, name),
          "Name the real standbys there, or set source.libpq.application_name to a name that it does not match");
    }
    if (catalog_.senders_used >= catalog_.senders_max) {
      add(Severity::warning, Subject::server, ExitCode::ok,
          fmt::format("all {} max_wal_senders are in use", catalog_.senders_max),
          "Run ALTER SYSTEM SET max_wal_senders = …; and restart the server");
    }
  }

  void role() {
    if (catalog_.may_replicate) return ok(Subject::role, fmt::format("role {} may replicate", catalog_.user));
    add(Severity::fatal, Subject::role, ExitCode::permission, fmt::format("role {} may not replicate", catalog_.user),
        fmt::format("Run ALTER ROLE {} REPLICATION;", quote_identifier(catalog_.user)));
  }

  void publication() {
    const auto& name = config_.source.publication.name;
    const auto quoted_name = quote_identifier(name);
    if (!catalog_.publication) {
      return add(Severity::fatal, Subject::publication, ExitCode::missing,
                 fmt::format("publication {} does not exist in database {}", quoted_name, catalog_.database),
                 fmt::format("Run outbox-relay init --config {}, or: {}", config_.file,
                             create_publication_sql(config_, quote_identifier)));
    }
    const auto& publication = *catalog_.publication;
    if (!publication.inserts) {
      return add(Severity::fatal, Subject::publication, ExitCode::missing,
                 fmt::format("publication {} publishes no inserts", quoted_name),
                 fmt::format("Run ALTER PUBLICATION {} SET (publish = 'insert');", quoted_name));
    }
    if (publication.updates || publication.deletes || publication.truncates) {
      return add(Severity::warning, Subject::publication, ExitCode::ok,
                 fmt::format("publication {} also publishes updates, deletes or truncates, which are passed over but "
                             "cost WAL decoding, and break UPDATE on tables without a replica identity",
                             quoted_name),
                 fmt::format("Run ALTER PUBLICATION {} SET (publish = 'insert');", quoted_name));
    }
    ok(Subject::publication, fmt::format("publication {} publishes inserts", quoted_name));
  }

  void table(const OutboxConfig& entry, const CatalogTable& table) {
    const auto name = quoted(entry.table);
    if (!table.exists) {
      const auto others = catalog_.published_tables.empty()
                              ? std::string("no table")
                              : fmt::format("{}", fmt::join(catalog_.published_tables, ", "));
      return add(Severity::halt, Subject::missing_table, ExitCode::config,
                 fmt::format("table {} does not exist; the publication publishes {}", name, others),
                 "If it was renamed, name it so under outbox[].table; if it was dropped, make it again and add it to "
                 "the publication");
    }
    if (table.persistence != "p") {
      return add(Severity::halt, Subject::table, ExitCode::config,
                 fmt::format("table {} is {}: its rows are not in the write-ahead log", name,
                             table.persistence == "u" ? "UNLOGGED" : "temporary"),
                 fmt::format("Run ALTER TABLE {} SET LOGGED;", name));
    }
    if (catalog_.publication && !table.published) {
      return add(Severity::halt, Subject::table, ExitCode::config,
                 fmt::format("table {} is not in publication {}: its events are not sent", name,
                             quote_identifier(config_.source.publication.name)),
                 fmt::format("Run ALTER PUBLICATION {} ADD TABLE {};",
                             quote_identifier(config_.source.publication.name), name));
    }
    ok(Subject::table, fmt::format("table {} is published", name));
    columns(entry, table, name);
  }

  void columns(const OutboxConfig& entry, const CatalogTable& table, const std::string& name) {
    std::vector<std::string> needed{entry.columns.payload};
    const auto need = [&](const Template& text) {
      for (const auto& piece : text.pieces) {
        if (piece.kind != Template::Piece::Kind::column) continue;
        needed.emplace_back(mapped_column(entry.columns, piece.text).value_or(piece.text));
      }
    };
    need(entry.route.topic);
    need(entry.route.key);
    if (entry.route.partition) need(*entry.route.partition);
    for (const auto& header : entry.route.headers) need(header.value);
    std::vector<std::string> missing;
    for (const auto& column : needed) {
      const bool there = std::find(table.columns.begin(), table.columns.end(), column) != table.columns.end();
      const bool said = std::find(missing.begin(), missing.end(), column) != missing.end();
      if (!there && !said) missing.push_back(column);
    }
    if (missing.empty()) return;
    // Events in the log may be older than the table's present shape: each is judged by its own row.
    add(Severity::warning, Subject::table, ExitCode::config,
        fmt::format("table {} has no column \"{}\"; it has {}", name, fmt::join(missing, "\", \""),
                    fmt::join(table.columns, ", ")),
        "Name it under outbox[].columns or in the templates, or add it; the relay halts at the first event without it");
  }

  void slot() {
    const auto& name = config_.source.slot.name;
    if (!catalog_.slot) {
      const bool none_free = catalog_.slots_used >= catalog_.slots_max;
      return add(Severity::fatal, Subject::slot, ExitCode::missing,
                 fmt::format(
                     "replication slot \"{}\" does not exist{}", name,
                     none_free ? fmt::format(", and all {} max_replication_slots are in use", catalog_.slots_max) : ""),
                 fmt::format("If it never existed run outbox-relay init --config {}. If it did, events committed since "
                             "its last position are in the table alone: a new slot starts after them",
                             config_.file));
    }
    const auto& slot = *catalog_.slot;
    if (slot.type != "logical" || slot.plugin != "pgoutput" || slot.database != catalog_.database) {
      return add(Severity::fatal, Subject::slot, ExitCode::config,
                 fmt::format("replication slot \"{}\" is not ours: a {} slot, plugin \"{}\", database \"{}\"", name,
                             slot.type, slot.plugin, slot.database),
                 "Set source.slot.name to a name of its own, or source.database to the slot's");
    }
    if (slot.lost()) {
      return add(
          Severity::fatal, Subject::slot, ExitCode::slot_lost,
          fmt::format("replication slot \"{}\" is lost ({}): what was committed after {} can be had from the "
                      "table alone",
                      name, slot.invalidation_reason.empty() ? "the WAL it needs is gone" : slot.invalidation_reason,
                      slot.confirmed_flush_lsn ? to_string(slot.confirmed_flush_lsn) : "its last position"),
          fmt::format("Raise max_slot_wal_keep_size, then run outbox-relay slot drop and outbox-relay init "
                      "--config {}, and send the missing events again from the table",
                      config_.file));
    }
    if (slot.wal_status == "unreserved") {
      add(Severity::warning, Subject::slot, ExitCode::ok,
          fmt::format("replication slot \"{}\" is about to be lost: it needs WAL that the next checkpoint removes",
                      name),
          "Raise max_slot_wal_keep_size now: ALTER SYSTEM SET max_slot_wal_keep_size = …; SELECT pg_reload_conf();");
    }
    const bool has_standbys = catalog_.physical_slots > 0 && !catalog_.in_recovery;
    if (slot.failover && has_standbys && catalog_.synchronized_standby_slots.empty()) {
      add(Severity::warning, Subject::slot, ExitCode::ok,
          fmt::format(
              "replication slot \"{}\" is meant to survive a failover, but synchronized_standby_slots is empty: "
              "events that no standby has yet are sent, and a failover may undo them in the database",
              name),
          "Run ALTER SYSTEM SET synchronized_standby_slots = 'the physical slot of each standby'; SELECT "
          "pg_reload_conf();");
    }
    const bool could_survive = catalog_.server_version >= 170000 && config_.source.slot.failover != FailoverSlot::off;
    if (could_survive && has_standbys && !slot.failover) {
      add(Severity::warning, Subject::slot, ExitCode::ok,
          fmt::format("replication slot \"{}\" is no failover slot: after a failover it is gone", name),
          fmt::format("On a replication connection (psql \"replication=database …\") run ALTER_REPLICATION_SLOT \"{}\" "
                      "(FAILOVER true); with the relay stopped, or set source.slot.failover: off",
                      name));
    }
    if (!catalog_.idle_slot_timeout.empty() && catalog_.idle_slot_timeout != "0") {
      add(Severity::warning, Subject::slot, ExitCode::ok,
          fmt::format("idle_replication_slot_timeout is {}: a relay that is stopped for longer loses its slot",
                      catalog_.idle_slot_timeout),
          "Run ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();");
    }
    ok(Subject::slot,
       fmt::format("replication slot \"{}\" is at {} ({}, {})", name, to_string(slot.confirmed_flush_lsn),
                   slot.wal_status, slot.active ? fmt::format("in use by PID {}", slot.active_pid) : "free"));
  }

  const Catalog& catalog_;
  const Config& config_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string quote_identifier(const std::string& name) { return doubled(name, '"'); }
std::string quote_literal(const std::string& text) { return doubled(text, '\''); }
std::string quoted(const TableName& table) {
  return quote_identifier(table.schema) + "." + quote_identifier(table.name);
}

std::string create_publication_sql(const Config& config, const QuoteLiteral& identifier) {
  std::string tables;
  for (const auto& entry : config.outbox) {
    tables += fmt::format("{}{}.{}", tables.empty() ? "" : ", ", identifier(entry.table.schema),
                          identifier(entry.table.name));
  }
  return fmt::format("CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert', publish_via_partition_root = true);",
                     identifier(config.source.publication.name), tables);
}

std::vector<Finding> examine(const Catalog& catalog, const Config& config) {
  return Examination(catalog, config).findings();
}

std::string to_string(const Finding& finding) {
  return finding.remedy.empty() ? finding.text : fmt::format("{}. {}", finding.text, finding.remedy);
}

void require_ready(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    if (finding.severity == Finding::Severity::fatal) throw FatalError(finding.code, to_string(finding));
  }
  for (const auto& finding : findings) {
    if (finding.severity == Finding::Severity::halt) throw HaltError(to_string(finding));
  }
}

}  // namespace outbox
