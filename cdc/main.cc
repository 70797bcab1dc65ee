// The command line.
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cdc/commands.h"
#include "cdc/conninfo.h"
#include "cdc/daemon.h"
#include "cdc/errors.h"
#include "cdc/failure.h"
#include "cdc/first_checkpoint.h"
#include "cdc/logging.h"
#include "cdc/pg_connection.h"
#include "cdc/printable.h"
#include "cdc/version.h"
#include "config/load.h"
#include "config/memory_limit.h"
#include "config/nearest.h"
#include "config/units.h"
#include "sinks/make_sink.h"

namespace outbox {

namespace {

// More than librdkafka holds by default only serves records that are larger than that.
void apply_memory_budget(Config& config) {
  auto& budget = config.memory.budget_bytes;
  if (budget == 0) budget = default_memory_budget(control_group_memory_limit());
  if (config.sink.kafka) config.sink.kafka->queue_bytes = std::min(config.sink.kafka->queue_bytes, budget);
}

Config load_and_check(const std::string& file) {
  auto config = load_config(file, process_environment(), [](const Config& read, std::vector<ConfigProblem>& problems) {
    check_libpq_keywords(read.source, problems);
    check_sink(read, problems);
  });
  configure_logging(config.log);
  apply_memory_budget(config);
  return config;
}

struct RunOptions {
  bool accept_gap = false;
};

ExitCode run_daemon(const Config& config, const RunOptions& options) {
  const auto memory = std::make_shared<KafkaMemory>();
  Daemon daemon(
      config,
      [memory](const Config& each, const std::string& system_identifier, CheckpointSource checkpoint) {
        return make_sink(each, transaction_identity(each, system_identifier), std::move(checkpoint), log_kafka, memory);
      },
      [&config] { return load_and_check(config.file); });
  if (options.accept_gap) daemon.accept_gap();
  return daemon.run();
}

std::string version_text() {
  const auto build = build_info();
  return fmt::format("outbox-relay {} ({})\nlibrdkafka {}\nlibpq {}\n{}", build.version, build.revision,
                     build.librdkafka, build.libpq, build.compiler);
}

// What the command line asks for; `command` is empty where it was answered already.
struct CommandLine {
  std::string config_file;
  std::function<ExitCode(const Config&)> command;
};

Lsn lsn_option(const std::string& text) {
  if (const auto lsn = parse_lsn(text)) return *lsn;
  throw CLI::ValidationError(fmt::format("\"{}\" is no LSN, such as 0/16B3748", text));
}

std::chrono::milliseconds duration_option(const std::string& text) {
  const auto parsed = parse_duration(text);
  if (const auto* bad = std::get_if<BadQuantity>(&parsed)) {
    throw CLI::ValidationError(fmt::format("\"{}\": {}", text, bad->message));
  }
  return std::get<std::chrono::milliseconds>(parsed);
}

void add_config(CLI::App* command, CommandLine& line) {
  command->add_option("-c,--config", line.config_file, "The YAML file")->required()->type_name("FILE");
}

void describe(CLI::App& app, CommandLine& line) {
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  app.footer(
      "A first run:\n"
      "  outbox-relay check  --config relay.yaml            what the file says, before anything is touched\n"
      "  outbox-relay init   --config relay.yaml            make the publication and the slot, once\n"
      "  outbox-relay check  --config relay.yaml --connect  look at both servers\n"
      "  outbox-relay run    --config relay.yaml            relay until SIGTERM\n"
      "  outbox-relay status --config relay.yaml            how far it is\n"
      "Exit codes: 0 ok, 64 usage, 65 slot lost or gap, 66 slot or publication missing, 69 unavailable,\n"
      "70 internal, 75 drain incomplete, 76 protocol, 77 permission, 78 config.");

  auto* run = app.add_subcommand("run", "Relay committed outbox rows to the sink until SIGTERM or SIGINT");
  add_config(run, line);
  static RunOptions run_options;
  run->add_flag("--accept-gap", run_options.accept_gap,
                "Go on although the slot was moved past events that were not sent; they are given up");
  run->callback([&line] { line.command = [](const Config& config) { return run_daemon(config, run_options); }; });

  auto* check = app.add_subcommand("check", "Validate the file; with --connect also PostgreSQL and Kafka");
  add_config(check, line);
  static CheckOptions check_options;
  check->add_flag("--connect", check_options.connect, "Look at both servers; says what to type for each finding");
  check->callback([&line] { line.command = [](const Config& config) { return run_check(config, check_options); }; });

  auto* init = app.add_subcommand("init", "Make the publication and the slot where they are missing");
  add_config(init, line);
  static InitOptions init_options;
  init->add_flag("--print-sql", init_options.print_sql, "Print the SQL for somebody else to run; connects to nothing");
  init->add_flag("--reset-checkpoint", init_options.reset_checkpoint,
                 "Begin the checkpoint anew at the slot's position: what was sent behind it comes again");
  init->callback([&line] { line.command = [](const Config& config) { return run_init(config, init_options); }; });

  auto* status = app.add_subcommand("status", "Show the slot, its lag, what pins it, and the running relay");
  add_config(status, line);
  static StatusOptions status_options;
  status->add_flag("--json", status_options.json, "As JSON");
  status->callback([&line] { line.command = [](const Config& config) { return run_status(config, status_options); }; });

  auto* peek = app.add_subcommand("peek", "Print the next events as JSON lines; confirms nothing");
  add_config(peek, line);
  static PeekOptions peek_options;
  peek->add_option("-n,--count", peek_options.count, "How many")->check(CLI::Range(1, 1000000))->capture_default_str();
  peek->add_flag("--from-now", peek_options.from_now,
                 "Events committed from now on, through a temporary slot, beside a running relay");
  peek->callback([&line] { line.command = [](const Config& config) { return run_peek(config, peek_options); }; });

  auto* wait = app.add_subcommand("wait", "Return once everything up to a position is acknowledged");
  add_config(wait, line);
  static WaitOptions wait_options;
  wait->add_option_function<std::string>(
          "--lsn", [](const std::string& text) { wait_options.lsn = lsn_option(text); },
          "The position; the end of the server's log where it is not given")
      ->type_name("LSN");
  wait->add_option_function<std::string>(
          "--timeout", [](const std::string& text) { wait_options.timeout = duration_option(text); },
          "How long at most, such as 30s or 5m; 60s where it is not given")
      ->type_name("TIME");
  wait->callback([&line] { line.command = [](const Config& config) { return run_wait(config, wait_options); }; });

  auto* slot = app.add_subcommand("slot", "Commands on the replication slot");
  slot->require_subcommand(1);
  auto* drop = slot->add_subcommand("drop", "Drop the slot, and give up every event that it has not delivered");
  add_config(drop, line);
  static SlotDropOptions drop_options;
  drop->add_flag("--force", drop_options.force, "Also a slot that is in use: ends its reader first");
  drop->callback([&line] { line.command = [](const Config& config) { return run_slot_drop(config, drop_options); }; });
  auto* advance = slot->add_subcommand("advance", "Give up, by name, what the server itself cannot decode");
  add_config(advance, line);
  static SlotAdvanceOptions advance_options;
  advance
      ->add_option_function<std::string>(
          "--past", [](const std::string& text) { advance_options.past = lsn_option(text); },
          "The position to go on from; what was committed before it is never sent")
      ->required()
      ->type_name("LSN");
  advance->add_flag("--yes", advance_options.yes, "Do not ask for the name of the slot");
  advance->callback(
      [&line] { line.command = [](const Config& config) { return run_slot_advance(config, advance_options); }; });
}

// Whether the first word is a command or an option; says what is meant where it is neither.
bool is_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return true;
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto suggestion = suggest_nearest(word, candidates);
  fmt::print(stderr, "there is no command \"{}\"{} Run outbox-relay --help\n", printable(word),
             suggestion.empty() ? "." : suggestion);
  return false;
}

// One-shot commands end where the daemon would try again.
ExitCode code_for(const PgError& error) {
  const auto kind = classify(error, "").kind;
  if (kind == FailureKind::refused_login || kind == FailureKind::permission) return ExitCode::permission;
  if (kind == FailureKind::config) return ExitCode::config;
  if (kind == FailureKind::missing) return ExitCode::missing;
  return ExitCode::unavailable;
}

ExitCode run_command(const CommandLine& line) {
  Config config;
  try {
    config = load_and_check(line.config_file);
    return line.command(config);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return ExitCode::config;
  } catch (const FatalError& error) {
    spdlog::error("{}", error.what());
    return error.code();
  } catch (const HaltError& error) {
    spdlog::error("{}", error.what());
    return ExitCode::config;
  } catch (const PgError& error) {
    const auto advice = classify(error, config.source.user).advice;
    spdlog::error("{}{}{}", error.what(), advice.empty() ? "" : ". ", advice);
    return code_for(error);
  } catch (const ProtocolError& error) {
    spdlog::error("{}", error.what());
    return ExitCode::protocol;
  } catch (const StopRequested&) {
    spdlog::info("stopped");
    return ExitCode::drain_incomplete;
  } catch (const std::exception& error) {
    spdlog::critical("internal error: {}", error.what());
    return ExitCode::internal;
  }
}

}  // namespace

}  // namespace outbox

int main(int argc, char** argv) {
  // Two heaps: one for the loop, one for librdkafka's threads; glibc would make eight a core.
  mallopt(M_ARENA_MAX, 2);
  signal(SIGPIPE, SIG_IGN);
  outbox::start_logging();
  CLI::App app("Relays committed rows of an outbox table in PostgreSQL to Kafka, losing none.", "outbox-relay");
  outbox::CommandLine line;
  outbox::describe(app, line);
  if (argc > 1 && !outbox::is_command(app, argv[1])) return outbox::to_int(outbox::ExitCode::usage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : outbox::to_int(outbox::ExitCode::usage);
  }
  return outbox::to_int(outbox::run_command(line));
}
