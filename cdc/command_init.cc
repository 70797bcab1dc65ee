// `init`: the publication first, then the slot; what is there already stays.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cdc/commands.h"
#include "cdc/first_checkpoint.h"
#include "cdc/one_shot.h"
#include "cdc/preflight.h"
#include "cdc/provision.h"
#include "cdc/replication_connection.h"

namespace outbox {

namespace {

std::string init_sql(const Config& config) {
  return fmt::format(
      "-- In database {}, by the owner of the table, who also needs CREATE on the database:\n{}\n"
      "-- Then, by a role with REPLICATION; it waits for the transactions that are open at that moment:\n"
      "SELECT pg_create_logical_replication_slot({}, 'pgoutput');\n",
      config.source.database, create_publication_sql(config, quote_identifier), quote_literal(config.source.slot.name));
}

}  // namespace

ExitCode run_init(const Config& config, const InitOptions& options) {
  if (options.print_sql) {
    fmt::print("{}", init_sql(config));
    return ExitCode::ok;
  }
  EventLoop loop;
  ReplicationConnection connection(config.source, loop, one_shot_deadline());
  auto catalog = read_catalog(connection.sql(), config, one_shot_deadline());
  // The publication must exist before the slot: a slot decodes with the catalog of each row's time.
  if (!catalog.publication) {
    create_publication(connection.sql(), config);
  } else {
    spdlog::info("publication {} is there already", quote_identifier(config.source.publication.name));
  }
  if (!catalog.slot) {
    for (const auto& finding : examine(catalog, config)) {
      const bool about_slot =
          finding.subject == Finding::Subject::slot || finding.subject == Finding::Subject::publication;
      if (!about_slot && finding.severity == Finding::Severity::fatal)
        throw FatalError(finding.code, to_string(finding));
    }
    create_slot(connection.sql(), config);
  } else {
    spdlog::info("replication slot \"{}\" is there already", config.source.slot.name);
  }
  catalog = read_catalog(connection.sql(), config, one_shot_deadline());
  if (!config.delivery.checkpoint_topic.empty() && catalog.slot) {
    write_first_checkpoint(config, connection.identify(one_shot_deadline()), catalog.slot->confirmed_flush_lsn,
                           options.reset_checkpoint);
  }
  return report(examine(catalog, config), stderr, ShowOk::no);
}

}  // namespace outbox
