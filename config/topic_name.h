// Which names Kafka takes for a topic.
#pragma once

#include <string_view>

namespace outbox {

// Why Kafka would not take a topic of this name; null where it would.
const char* topic_name_problem(std::string_view topic);

}  // namespace outbox
