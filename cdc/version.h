// Which build this is, and with which libraries.
#pragma once

#include <string>

namespace outbox {

struct BuildInfo {
  std::string version;
  std::string revision;
  std::string librdkafka;
  std::string libpq;
  std::string compiler;
};

BuildInfo build_info();

}  // namespace outbox
