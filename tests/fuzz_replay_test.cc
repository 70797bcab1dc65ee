// What the fuzzers run, without a fuzzer: real captured streams and files, whole and damaged at random.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "tests/fuzz/fuzz_config.h"
#include "tests/fuzz/fuzz_stream.h"
#include "tests/wire.h"

namespace outbox {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(std::string(OUTBOX_SOURCE_DIR) + "/" + name, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A captured stream as the fuzzer takes it.
std::string captured_stream() {
  std::istringstream lines(file("tests/data/pgoutput_15.hex"));
  std::string position, hex, out;
  while (lines >> position >> hex) {
    std::string message;
    for (std::size_t at = 0; at < hex.size(); at += 2) {
      message.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
    }
    out += framed(wire::xlog_data(lsn(position), message));
  }
  return out + framed(wire::keepalive(lsn("1/0"), true));
}

std::string damaged(std::string bytes, std::mt19937& random) {
  for (auto count = 1 + random() % 8; count > 0 && !bytes.empty(); --count) {
    const auto at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1 + random() % 16);
        break;
      case 2:
        bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 64));
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
    }
  }
  return bytes;
}

TEST(FuzzReplay, ADamagedStreamIsRefusedAndNeverEndsTheProcess) {
  const auto stream = captured_stream();
  ASSERT_GT(stream.size(), 1000u);
  fuzz_stream(stream);
  for (std::size_t size = 0; size < stream.size(); size += 7) fuzz_stream(std::string_view(stream).substr(0, size));
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    fuzz_stream(damaged(stream, random));
  }
}

TEST(FuzzReplay, ADamagedConfigurationIsRefusedAndNeverEndsTheProcess) {
  const auto example = file("config/outbox-relay.example.yaml");
  ASSERT_GT(example.size(), 1000u);
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    fuzz_config(damaged(example, random));
  }
}

}  // namespace
}  // namespace outbox
