// Reads a small file whole: the configuration itself, and the secrets it points to.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

namespace outbox {

// Why a file is not usable, without its path: a misplaced secret could stand there.
struct BadFile {
  std::string message;
};

// The bytes of a file of at most `limit` bytes; pipes are read to their end.
std::variant<std::string, BadFile> read_file(const std::string& path, std::size_t limit);

// What a secret's file holds, without one trailing newline. Refuses a file that others can read, an
// empty one, one with a NUL in it and anything that is not a regular file.
std::variant<std::string, BadFile> read_secret_file(const std::string& path);

}  // namespace outbox
