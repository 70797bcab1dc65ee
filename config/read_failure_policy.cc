// Of the `delivery` section: what becomes of a record that can never be delivered as it is.
#include "config/sections.h"
#include "config/topic_name.h"

namespace outbox {

namespace {

void read_policies(const MapReader& delivery, DeliveryConfig& into) {
  const auto map = delivery.map("on_failure");
  if (!map) return;
  for (std::size_t index = 0; index < into.on_failure.size(); ++index) {
    map->choice(failure_class_names[index], into.on_failure[index],
                {{"halt", OnFailure::halt}, {"dead_letter", OnFailure::dead_letter}});
    if (into.on_failure[index] == OnFailure::dead_letter && into.dead_letter_topic.empty()) {
      map->find(failure_class_names[index])->refuse("dead_letter needs a topic: set delivery.dead_letter.topic");
    }
  }
}

}  // namespace

void read_failure_policy(const MapReader& delivery, DeliveryConfig& into) {
  bool topic_refused = false;
  if (const auto dead_letter = delivery.map("dead_letter")) {
    std::string topic;
    if (const auto value = dead_letter->text("topic", topic)) {
      into.dead_letter_topic = topic;
      if (const char* problem = topic_name_problem(topic)) {
        value->refuse(std::string("is no name that Kafka takes for a topic: ") + problem);
      }
    } else {
      topic_refused = dead_letter->find("topic").has_value();  // Said already.
      if (!topic_refused) dead_letter->refuse("\"topic\" is required, such as topic: outbox.dead-letters");
      topic_refused = true;
    }
  }
  if (topic_refused) into.dead_letter_topic = "?";  // One mistake is said once.
  read_policies(delivery, into);
}

}  // namespace outbox
