// Writes outbox events at a rate, each in a transaction of its own, and notes when each committed.
//
// The payload carries its number and the moment just before the INSERT was sent ("n", "t"). With
// --out, a line "n before_ns after_ns" is kept for each event: sent, and its commit reported back.

#include <fstream>
#include <thread>

#include "bench_postgres.h"

namespace {

using bench::monotonic_ns;

struct Written {
  std::int64_t number;
  std::int64_t before_ns;
  std::int64_t after_ns;
};

struct Plan {
  std::int64_t events;
  double rate;
  std::int64_t connections;
  std::int64_t start_ns;
  std::int64_t give_up_ns;
  std::size_t bytes;
  std::vector<std::string> aggregate_types;
};

constexpr const char* insert_statement =
    "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload) "
    "VALUES ($1, $2, 'OrderPlaced', $3::jsonb)";

bench::PgConnection connect_and_prepare(const std::string& conninfo, const std::string& synchronous_commit) {
  bench::PgConnection connection = bench::connect(conninfo);
  const std::string set = "SET synchronous_commit = " + synchronous_commit;
  bench::expect(connection.get(), bench::PgResult(PQexec(connection.get(), set.c_str())), PGRES_COMMAND_OK);
  bench::expect(connection.get(), bench::PgResult(PQprepare(connection.get(), "insert", insert_statement, 0, nullptr)),
                PGRES_COMMAND_OK);
  return connection;
}

std::string payload(const Plan& plan, std::int64_t number, std::int64_t epoch_ns) {
  std::string text = R"({"n": )" + std::to_string(number) + R"(, "t": )" + std::to_string(epoch_ns) + R"(, "note": ")";
  if (text.size() + 2 < plan.bytes) text.append(plan.bytes - 2 - text.size(), 'x');
  return text + R"("})";
}

// Every `connections`-th event, beginning with `first`, each when it is due.
std::vector<Written> write_share(PGconn* connection, const Plan& plan, std::int64_t first) {
  std::vector<Written> written;
  for (std::int64_t number = first; number < plan.events; number += plan.connections) {
    bench::sleep_until_ns(plan.start_ns + static_cast<std::int64_t>(static_cast<double>(number) / plan.rate * 1e9));
    if (monotonic_ns() > plan.give_up_ns) throw std::runtime_error("timed out");
    const std::string& type = plan.aggregate_types[static_cast<std::size_t>(number) % plan.aggregate_types.size()];
    const std::string id = "order-" + std::to_string(number % 1000);
    const std::int64_t before_ns = bench::epoch_ns();
    const std::string body = payload(plan, number, before_ns);
    const char* values[] = {type.c_str(), id.c_str(), body.c_str()};
    const bench::PgResult result(PQexecPrepared(connection, "insert", 3, values, nullptr, nullptr, 0));
    bench::expect(connection, result, PGRES_COMMAND_OK);
    written.push_back({number, before_ns, bench::epoch_ns()});
  }
  return written;
}

void save(const std::string& path, const std::vector<std::vector<Written>>& shares) {
  std::ofstream out(path);
  for (const auto& share : shares) {
    for (const Written& event : share) {
      out << event.number << ' ' << event.before_ns << ' ' << event.after_ns << '\n';
    }
  }
  if (!out.flush()) throw std::runtime_error("writing " + path + " failed");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main([&] {
    const bench::Flags flags(argc, argv,
                             {{"conninfo", ""},
                              {"events", "1000"},
                              {"rate", "100"},
                              {"connections", "1"},
                              {"synchronous-commit", "on"},
                              {"bytes", "330"},
                              {"aggregate-types", "order,payment,customer"},
                              {"out", ""},
                              {"timeout-s", "120"}});
    Plan plan{.events = flags.count("events"),
              .rate = flags.number("rate"),
              .connections = flags.count("connections"),
              .start_ns = 0,
              .give_up_ns = monotonic_ns() + flags.count("timeout-s") * 1'000'000'000,
              .bytes = static_cast<std::size_t>(flags.count("bytes")),
              .aggregate_types = flags.list("aggregate-types")};
    if (plan.connections < 1 || plan.rate <= 0 || plan.aggregate_types.empty()) {
      throw bench::UsageError("--connections, --rate and --aggregate-types must not be empty");
    }

    std::vector<bench::PgConnection> connections;
    for (std::int64_t i = 0; i < plan.connections; ++i) {
      connections.push_back(connect_and_prepare(flags.text("conninfo"), flags.text("synchronous-commit")));
    }
    plan.start_ns = monotonic_ns();

    std::vector<std::vector<Written>> shares(connections.size());
    std::vector<std::string> problems(connections.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          shares[i] = write_share(connections[i].get(), plan, static_cast<std::int64_t>(i));
        } catch (const std::exception& error) {
          problems[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& problem : problems) {
      if (!problem.empty()) throw std::runtime_error(problem);
    }
    const std::int64_t end_ns = monotonic_ns();
    if (!flags.text("out").empty()) save(flags.text("out"), shares);
    bench::JsonLine()
        .add("events", plan.events)
        .add("seconds", bench::seconds_between(plan.start_ns, end_ns))
        .add_usage()
        .print();
  });
}
