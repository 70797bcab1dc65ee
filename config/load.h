// YAML to Config, strictly: everything that is wrong in a file is said in one run.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace outbox {

struct ConfigProblem {
  Mark mark;
  std::string message;  // What was expected, what was found, what to write.
};

// Thrown for a configuration that cannot be used; what() has one line `file:line:column: message` a problem.
class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& file, std::vector<ConfigProblem> problems);
  const std::vector<ConfigProblem>& problems() const { return problems_; }

 private:
  std::vector<ConfigProblem> problems_;
};

// The value of an environment variable, or nothing where it is unset.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// What only a library can judge of what has been read so far, such as the names of its own keywords; adds its problems
// to those of the file, so that one run says them all.
using FurtherChecks = std::function<void(const Config&, std::vector<ConfigProblem>&)>;

// Reads and checks a file. Throws ConfigError with every problem found, also for a file that cannot be read.
Config load_config(const std::string& path, const Environment& environment = process_environment(),
                   const FurtherChecks& further = {});

// The same for text that is at hand; `file` is what messages call it.
Config parse_config(const std::string& text, const std::string& file, const Environment& environment,
                    const FurtherChecks& further = {});

}  // namespace outbox
