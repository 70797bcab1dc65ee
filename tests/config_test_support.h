// What the tests of the configuration share: files at hand, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "config/load.h"

namespace outbox {

// Three lines that every file needs; tests go on in line 4.
inline const std::string kBase =
    "version: 1\n"
    "source: {database: shop}\n"
    "sink: {stdout: {}}\n";

inline Environment environment(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

inline Config parse(const std::string& text, std::map<std::string, std::string> variables = {}) {
  return parse_config(text, "f.yaml", environment(std::move(variables)));
}

// Everything that is said of a file, or an empty text where it is good.
inline std::string errors(const std::string& text, std::map<std::string, std::string> variables = {}) {
  try {
    parse(text, std::move(variables));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess() << text;
  return testing::AssertionFailure() << "no \"" << part << "\" in:\n" << text;
}

// A template as it would be written, columns in angle brackets.
inline std::string shown(const Template& pattern) {
  std::string text;
  for (const auto& [kind, piece] : pattern.pieces) {
    text += kind == Template::Piece::Kind::column ? "<" + piece + ">" : piece;
  }
  return text;
}

inline std::string replaced(std::string text, const std::string& part, const std::string& by) {
  if (const std::size_t at = text.find(part); at != std::string::npos) text.replace(at, part.size(), by);
  return text;
}

inline std::string kafka(const std::string& properties) {
  return "version: 1\nsource: {database: shop}\nsink:\n  kafka:\n    brokers: [\"k:1\"]\n    "
         "properties:\n      " +
         properties + "\n";
}

}  // namespace outbox
