// Arbitrary bytes as a configuration file: it is read, or refused with a ConfigError.
#pragma once

#include <string>
#include <string_view>

#include "config/load.h"

namespace outbox {

inline void fuzz_config(std::string_view input) {
  try {
    parse_config(std::string(input), "fuzz.yaml", [](const std::string& name) -> std::optional<std::string> {
      if (name.empty() || name[0] == 'X') return std::nullopt;
      return "value";
    });
  } catch (const ConfigError&) {
  }
}

}  // namespace outbox
