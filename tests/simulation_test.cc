// The relay's promises under every fault at random steps: nothing lost, nothing early, in order, caught up.
//
// A failure names its seed; OUTBOX_SIMULATION_SEED=N runs that one alone, OUTBOX_SIMULATION_RUNS=N more of them.
#include "tests/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/config_test_support.h"

namespace outbox::simulation {
namespace {

constexpr int steps = 1000;

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

const std::vector<OutboxConfig>& outbox_entries() {
  static const auto outbox = parse(kBase + "defaults: {route: {topic: t, headers: {}}}\n").outbox;
  return outbox;
}

void add(Totals& sum, const Totals& run) {
  sum.streams += run.streams;
  sum.kills += run.kills;
  sum.clean_stops += run.clean_stops;
  sum.crashes += run.crashes;
  sum.histories += run.histories;
  sum.halts += run.halts;
  sum.broken_sinks += run.broken_sinks;
  sum.blocked += run.blocked;
  sum.updates += run.updates;
  sum.events += run.events;
  sum.suppressed += run.suppressed;
  sum.duplicates += run.duplicates;
}

TEST(Simulation, NothingIsLostEarlyOrOutOfOrderWhateverFails) {
  const auto first = number_from("OUTBOX_SIMULATION_SEED", 1);
  const auto runs = std::getenv("OUTBOX_SIMULATION_SEED") ? 1 : number_from("OUTBOX_SIMULATION_RUNS", 300);
  Totals sum;
  for (auto seed = first; seed < first + runs; ++seed) {
    Simulation simulation(seed, Variant::sound, outbox_entries());
    ASSERT_EQ(simulation.run(steps), "") << "OUTBOX_SIMULATION_SEED=" << seed;
    add(sum, simulation.totals);
  }
  std::printf(
      "%u runs: %lu events, %d streams, %d kills, %d clean stops, %d server crashes, %d histories, %d halts, "
      "%d broken sinks, %d turns blocked, %d updates, %lu suppressed, %lu duplicates\n",
      runs, sum.events, sum.streams, sum.kills, sum.clean_stops, sum.crashes, sum.histories, sum.halts,
      sum.broken_sinks, sum.blocked, sum.updates, sum.suppressed, sum.duplicates);
  if (runs < 100) return;
  // A simulation in which nothing happens proves nothing.
  for (const int happened : {sum.kills, sum.clean_stops, sum.crashes, sum.histories, sum.halts, sum.broken_sinks}) {
    EXPECT_GT(happened, static_cast<int>(runs / 10));
  }
  EXPECT_GT(sum.blocked, 1000);
  EXPECT_GT(sum.suppressed, 100u);
  EXPECT_GT(sum.duplicates, 100u);
}

TEST(Simulation, WithADeadLetterTopicWhatIsRefusedArrivesThereAndNothingHaltsForIt) {
  DeliveryConfig delivery;
  delivery.on_failure.fill(OnFailure::dead_letter);
  delivery.dead_letter_topic = "dead";
  Totals sum;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    Simulation simulation(seed, Variant::sound, outbox_entries(), delivery);
    ASSERT_EQ(simulation.run(steps), "") << "seed " << seed;
    sum.dead_letters += simulation.totals.dead_letters;
    sum.halts += simulation.totals.halts;
  }
  EXPECT_GT(sum.dead_letters, 50);
  EXPECT_LT(sum.halts, sum.dead_letters) << "only where the dead-letter topic refuses too";
}

class BrokenRelay : public testing::TestWithParam<std::pair<Variant, const char*>> {};

TEST_P(BrokenRelay, IsCaught) {
  const auto& [variant, accusation] = GetParam();
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const auto violation = Simulation(seed, variant, outbox_entries()).run(steps);
    if (violation.find(accusation) != std::string::npos) return;
  }
  FAIL() << "100 seeds and no \"" << accusation << '"';
}

INSTANTIATE_TEST_SUITE_P(Simulation, BrokenRelay,
                         testing::Values(std::pair(Variant::confirms_newest_delivered, "was delivered"),
                                         std::pair(Variant::confirms_what_was_received, "was delivered"),
                                         std::pair(Variant::believes_watermark_of_any_history, "was delivered"),
                                         std::pair(Variant::forgets_deliveries_between_streams, "is sent again")));

}  // namespace
}  // namespace outbox::simulation
