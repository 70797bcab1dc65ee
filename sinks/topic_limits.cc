#include "sinks/topic_limits.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "sinks/kafka_handles.h"

namespace outbox {

namespace {

using ConfigResource = std::unique_ptr<rd_kafka_ConfigResource_t, FreeWith<rd_kafka_ConfigResource_destroy>>;
using AdminOptions = std::unique_ptr<rd_kafka_AdminOptions_t, FreeWith<rd_kafka_AdminOptions_destroy>>;

std::optional<int> limit_of(const rd_kafka_ConfigResource_t* topic) {
  std::size_t count = 0;
  const auto* const* entries = rd_kafka_ConfigResource_configs(topic, &count);
  for (std::size_t index = 0; index < count; ++index) {
    if (std::string_view(rd_kafka_ConfigEntry_name(entries[index])) != "max.message.bytes") continue;
    const char* value = rd_kafka_ConfigEntry_value(entries[index]);
    const int bytes = value != nullptr ? std::atoi(value) : 0;
    if (bytes > 0) return bytes;
  }
  return std::nullopt;
}

}  // namespace

void TopicLimits::ask(rd_kafka_t* producer, rd_kafka_queue_t* queue) {
  if (awaited_ || wanted_.empty()) return;
  std::vector<ConfigResource> resources;
  std::vector<rd_kafka_ConfigResource_t*> request;
  for (const auto& topic : wanted_) {
    resources.emplace_back(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str()));
    request.push_back(resources.back().get());
  }
  wanted_.clear();
  const AdminOptions options(rd_kafka_AdminOptions_new(producer, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS));
  rd_kafka_DescribeConfigs(producer, request.data(), request.size(), options.get(), queue);
  awaited_ = true;
}

std::optional<int> TopicLimits::take(rd_kafka_event_t* event) {
  awaited_ = false;
  std::optional<int> smallest;
  const auto* result = rd_kafka_event_DescribeConfigs_result(event);
  if (result == nullptr || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) return smallest;
  std::size_t count = 0;
  const auto* const* topics = rd_kafka_DescribeConfigs_result_resources(result, &count);
  for (std::size_t index = 0; index < count; ++index) {
    if (rd_kafka_ConfigResource_error(topics[index]) != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
    const auto limit = limit_of(topics[index]);
    if (limit) smallest = std::min(smallest.value_or(*limit), *limit);
  }
  return smallest;
}

}  // namespace outbox
