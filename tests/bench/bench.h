// What every bench program shares: its flags, its clocks, and its result as one line of JSON.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

// Lets a unique_ptr own what a C library hands out.
template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    Free(pointer);
  }
};

inline std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// For durations.
inline std::int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

// For moments that another process on this machine compares with its own.
inline std::int64_t epoch_ns() { return clock_ns(CLOCK_REALTIME); }

inline double seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e9;
}

inline void sleep_until_ns(std::int64_t monotonic_deadline_ns) {
  const timespec deadline{.tv_sec = monotonic_deadline_ns / 1'000'000'000,
                          .tv_nsec = monotonic_deadline_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `--name value` pairs over defaults. A default of "" with no value given stays "". `--set a=b`
// may be repeated and is kept apart, for properties of a library.
class Flags {
 public:
  Flags(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string_view flag = argv[i];
      if (!flag.starts_with("--") || i + 1 == argc) throw UsageError(usage(argv[0]));
      const std::string name(flag.substr(2));
      if (name == "set") {
        properties_.push_back(split_property(argv[i + 1]));
        continue;
      }
      const auto known = values_.find(name);
      if (known == values_.end()) throw UsageError("unknown flag --" + name + "; " + usage(argv[0]));
      known->second = argv[i + 1];
    }
  }

  const std::string& text(const std::string& name) const { return values_.at(name); }
  std::int64_t count(const std::string& name) const { return std::stoll(values_.at(name)); }
  double number(const std::string& name) const { return std::stod(values_.at(name)); }

  // The parts of a comma-separated value.
  std::vector<std::string> list(const std::string& name) const {
    std::vector<std::string> parts;
    std::istringstream in(values_.at(name));
    for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
    return parts;
  }

  const std::vector<std::pair<std::string, std::string>>& properties() const { return properties_; }

 private:
  static std::pair<std::string, std::string> split_property(const std::string& property) {
    const auto equals = property.find('=');
    if (equals == std::string::npos) throw UsageError("--set takes name=value, not " + property);
    return {property.substr(0, equals), property.substr(equals + 1)};
  }

  std::string usage(const char* program) const {
    std::string text = std::string("usage: ") + program;
    for (const auto& [name, value] : values_) text += " [--" + name + " " + value + "]";
    return text + " [--set property=value]...";
  }

  std::map<std::string, std::string> values_;
  std::vector<std::pair<std::string, std::string>> properties_;
};

// Not getrusage's ru_maxrss: that one also remembers the process that this one was forked from.
inline std::int64_t peak_rss_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib;
  }
  return 0;
}

// One flat JSON object. Values are numbers, or text that needs no escaping.
class JsonLine {
 public:
  template <typename Number>
  JsonLine& add(std::string_view name, Number value) {
    start(name) << value;
    return *this;
  }
  JsonLine& add(std::string_view name, const std::string& value) {
    start(name) << '"' << value << '"';
    return *this;
  }

  // CPU time and peak memory of this process so far.
  JsonLine& add_usage() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    add("cpu_user_seconds", seconds(usage.ru_utime));
    add("cpu_system_seconds", seconds(usage.ru_stime));
    return add("max_rss_kib", peak_rss_kib());
  }

  void print() const { std::cout << '{' << out_.str() << '}' << std::endl; }

 private:
  std::ostream& start(std::string_view name) {
    if (out_.tellp() > 0) out_ << ", ";
    out_.precision(9);
    return out_ << '"' << name << "\": ";
  }

  std::ostringstream out_;
};

// Runs a program's body; whatever it throws becomes a message and an exit code.
template <typename Body>
int run_main(Body body) {
  try {
    body();
    return EXIT_SUCCESS;
  } catch (const UsageError& error) {
    std::cerr << error.what() << '\n';
    return 64;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

}  // namespace bench
