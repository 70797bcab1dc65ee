// The `delivery` section: what a consumer may rely on.
#include "config/sections.h"

namespace outbox {

void read_delivery(const MapReader& delivery, Config& into) {
  auto& target = into.delivery;
  read_failure_policy(delivery, target);
  const auto guarantee = delivery.find("guarantee");
  delivery.choice("guarantee", target.guarantee,
                  {{"at_least_once", Guarantee::at_least_once}, {"exactly_once", Guarantee::exactly_once}});
  const auto checkpoint = delivery.map("checkpoint");
  if (checkpoint) {
    checkpoint->text("topic", target.checkpoint_topic);
    if (!checkpoint->find("topic")) checkpoint->refuse("\"topic\" is required, such as outbox-relay.checkpoint.orders");
  }
  const bool exactly_once = target.guarantee == Guarantee::exactly_once;
  if (into.sink.kafka) {
    // One topic per slot: in a shared one, readers would wait for another relay's open transaction.
    if (exactly_once && target.checkpoint_topic.empty()) {
      target.checkpoint_topic = "outbox-relay.checkpoint." + into.source.slot.name;
    }
    return;
  }
  if (exactly_once) guarantee->refuse("exactly_once needs sink.kafka: its transactions carry the records");
  if (checkpoint) checkpoint->refuse("needs sink.kafka: a checkpoint is a record of a Kafka topic");
}

}  // namespace outbox
