#include "config/topic_name.h"

#include <algorithm>
#include <cstddef>

namespace outbox {

const char* topic_name_problem(std::string_view topic) {
  constexpr std::size_t longest = 249;  // Kafka's own limit, from the length of a file name.
  if (topic.empty()) return "it is empty";
  if (topic == "." || topic == "..") return "Kafka reserves that name";
  if (topic.size() > longest) return "it is longer than 249 characters";
  const bool legal = std::all_of(topic.begin(), topic.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  return legal ? nullptr : "only ASCII letters, digits, '.', '_' and '-' may stand in it";
}

}  // namespace outbox
