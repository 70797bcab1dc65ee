// Claims about the delivery and memory sections, and about the limits of a control group.
#include <filesystem>
#include <fstream>

#include "config/memory_limit.h"
#include "tests/config_test_support.h"

namespace outbox {
namespace {

OnFailure policy(const Config& config, FailureClass failure_class) {
  return config.delivery.on_failure.at(static_cast<std::size_t>(failure_class));
}

TEST(ConfigDelivery, EveryFailureHaltsUnlessSaidOtherwise) {
  const auto config = parse(kBase);
  for (const auto each : config.delivery.on_failure) EXPECT_EQ(each, OnFailure::halt);
  EXPECT_EQ(config.delivery.dead_letter_topic, "");
}

TEST(ConfigDelivery, EachClassHasItsOwnPolicy) {
  const auto config = parse(kBase +
                            "delivery:\n"
                            "  on_failure: {too_large: dead_letter, unmappable: dead_letter, unauthorized: halt}\n"
                            "  dead_letter: {topic: outbox.dead-letters}\n");
  EXPECT_EQ(policy(config, FailureClass::too_large), OnFailure::dead_letter);
  EXPECT_EQ(policy(config, FailureClass::unmappable), OnFailure::dead_letter);
  EXPECT_EQ(policy(config, FailureClass::unauthorized), OnFailure::halt);
  EXPECT_EQ(policy(config, FailureClass::invalid_record), OnFailure::halt);
  EXPECT_EQ(config.delivery.dead_letter_topic, "outbox.dead-letters");
}

TEST(ConfigDelivery, APolicyOfDeadLettersNeedsTheirTopicAndSaysWhere) {
  const auto text = errors(kBase + "delivery:\n  on_failure:\n    too_large: dead_letter\n");
  EXPECT_TRUE(contains(text, "f.yaml:6:"));
  EXPECT_TRUE(contains(text, "delivery.dead_letter.topic"));
}

TEST(ConfigDelivery, TheTopicOfDeadLettersIsOneThatKafkaTakesAndNoTemplate) {
  for (const char* bad : {"'a b'", "'..'", "'${aggregate_type}'", "'bestellung ü'"}) {
    const auto text = errors(kBase + "delivery: {dead_letter: {topic: " + bad + "}}\n");
    EXPECT_TRUE(contains(text, "delivery.dead_letter.topic")) << bad;
  }
  EXPECT_TRUE(contains(errors(kBase + "delivery: {dead_letter: {}}\n"), "\"topic\" is required"));
}

TEST(ConfigDelivery, APolicyThatIsNoneIsRefused) {
  EXPECT_TRUE(contains(errors(kBase + "delivery: {on_failure: {too_large: skip}}\n"), "dead_letter"));
  EXPECT_TRUE(contains(errors(kBase + "delivery: {on_failure: {too_big: halt}}\n"), "too_large"));
}

TEST(ConfigMemory, TheBudgetIsASizeOrAuto) {
  EXPECT_EQ(parse(kBase).memory.budget_bytes, 0u);
  EXPECT_EQ(parse(kBase + "memory: {budget: auto}\n").memory.budget_bytes, 0u);
  EXPECT_EQ(parse(kBase + "memory: {budget: 32MiB}\n").memory.budget_bytes, 32u << 20);
  EXPECT_TRUE(contains(errors(kBase + "memory: {budget: much}\n"), "memory.budget"));
  EXPECT_TRUE(contains(errors(kBase + "memory: {budget: 10kB}\n"), "at least 1MiB"));
}

TEST(MemoryLimit, TheBudgetIsHalfTheLimitWithinBounds) {
  constexpr std::uint64_t mebibyte = 1 << 20;
  EXPECT_EQ(default_memory_budget(std::nullopt), 64 * mebibyte);
  EXPECT_EQ(default_memory_budget(8 * mebibyte), 16 * mebibyte);
  EXPECT_EQ(default_memory_budget(128 * mebibyte), 64 * mebibyte);
  EXPECT_EQ(default_memory_budget(64 * 1024 * mebibyte), 256 * mebibyte);
}

// A /proc and /sys of its own.
class ControlGroup : public testing::Test {
 protected:
  ~ControlGroup() override { std::filesystem::remove_all(root); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  }

  std::string root = testing::TempDir() + "control-group-" + std::to_string(getpid());
};

TEST_F(ControlGroup, OfVersion2TheSmallestLimitUpToTheRootHolds) {
  write("/proc/self/cgroup", "0::/system.slice/relay.service");
  write("/sys/fs/cgroup/system.slice/relay.service/memory.max", "max");
  EXPECT_EQ(control_group_memory_limit(root), std::nullopt);
  write("/sys/fs/cgroup/system.slice/memory.max", "200000000");
  EXPECT_EQ(control_group_memory_limit(root), 200000000u);
  write("/sys/fs/cgroup/system.slice/relay.service/memory.max", "100000000");
  EXPECT_EQ(control_group_memory_limit(root), 100000000u);
}

TEST_F(ControlGroup, InAContainerTheLimitStandsAtTheMount) {
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/memory.max", "134217728");
  EXPECT_EQ(control_group_memory_limit(root), 134217728u);
}

TEST_F(ControlGroup, OfVersion1TheLargestNumberMeansNone) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x");
  write("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(control_group_memory_limit(root), std::nullopt);
  write("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "67108864");
  EXPECT_EQ(control_group_memory_limit(root), 67108864u);
}

TEST_F(ControlGroup, WithoutAnyThereIsNoLimit) { EXPECT_EQ(control_group_memory_limit(root), std::nullopt); }

}  // namespace
}  // namespace outbox
