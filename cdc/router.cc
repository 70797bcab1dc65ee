#include "cdc/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cdc/errors.h"
#include "config/topic_name.h"

namespace outbox {

std::vector<std::string> literal_topics(const Config& config) {
  std::vector<std::string> topics;
  for (const auto& entry : config.outbox) {
    const auto& pieces = entry.route.topic.pieces;
    if (pieces.size() == 1 && pieces[0].kind == Template::Piece::Kind::literal) topics.push_back(pieces[0].text);
  }
  if (!config.delivery.dead_letter_topic.empty()) topics.push_back(config.delivery.dead_letter_topic);
  return topics;
}

BoundTemplate::BoundTemplate(const Template& source, const OutboxTable& table, std::string_view needed_for) {
  for (const auto& piece : source.pieces) {
    const bool is_column = piece.kind == Template::Piece::Kind::column;
    pieces_.push_back(
        {.is_column = is_column, .text = piece.text, .column = is_column ? table.require(piece.text, needed_for) : 0});
  }
}

const std::string* BoundTemplate::render(std::span<const pgoutput::TupleValue> values, std::string& out) const {
  out.clear();
  for (const auto& piece : pieces_) {
    if (!piece.is_column) {
      out.append(piece.text);
      continue;
    }
    const auto& value = values[piece.column];
    if (value.is_null()) return &piece.text;
    out.append(value.text);
  }
  return nullptr;
}

Router::Route::Route(const OutboxTable& table)
    : topic(table.config().route.topic, table, "the topic"),
      key(table.config().route.key, table, "the key"),
      payload(table.require("payload", "the value")) {
  const auto& config = table.config().route;
  if (config.partition) partition.emplace(*config.partition, table, "the partition");
  for (const auto& header : config.headers) {
    header_names.push_back(header.name);
    headers.emplace_back(header.value, table, fmt::format("header \"{}\"", header.name));
  }
}

const Router::Route& Router::route_of(const OutboxEvent& event) {
  const auto found = routes_.find(event.relation);
  if (found != routes_.end()) return found->second;
  return routes_.emplace(event.relation, Route(*event.table)).first->second;
}

void Router::set_topic(const Route& route, const OutboxEvent& event) {
  if (const auto* null_column = route.topic.render(event.values, topic_)) {
    throw InvalidTopic(fmt::format("its topic needs column \"{}\", which is NULL", *null_column));
  }
  if (topic_.empty() || topic_ != valid_topic_) {
    if (const char* problem = topic_name_problem(topic_)) {
      throw InvalidTopic(fmt::format("its topic \"{}\" is no name that Kafka takes: {}",
                                     std::string_view(topic_).substr(0, 260), problem));
    }
    valid_topic_ = topic_;
  }
  record_.topic = topic_;
}

void Router::set_key(const Route& route, const OutboxEvent& event) {
  const auto* null_column = route.key.render(event.values, key_);
  if (null_column == nullptr) {
    record_.key = key_;
    return;
  }
  if (event.table->config().on_null.key == NullKey::halt) {
    throw HaltError(fmt::format(
        "its key needs column \"{}\", which is NULL. Set on_null.key: send to send such events without a key "
        "(in no particular order)",
        *null_column));
  }
  record_.key.reset();
  ++counts_.null_keys;
}

void Router::set_partition(const Route& route, const OutboxEvent& event) {
  record_.partition.reset();
  if (!route.partition || route.partition->render(event.values, partition_) != nullptr) return;
  std::int32_t partition = 0;
  const char* end = partition_.data() + partition_.size();
  const auto [parsed_to, error] = std::from_chars(partition_.data(), end, partition);
  if (error != std::errc{} || parsed_to != end || partition < 0) {
    throw HaltError(
        fmt::format("its partition \"{}\" is not a number from 0 up", std::string_view(partition_).substr(0, 40)));
  }
  record_.partition = partition;
}

void Router::set_headers(const Route& route, const OutboxEvent& event) {
  record_.headers.clear();
  if (header_values_.size() < route.headers.size()) header_values_.resize(route.headers.size());
  for (std::size_t index = 0; index < route.headers.size(); ++index) {
    auto& value = header_values_[index];
    const bool left_out = route.headers[index].render(event.values, value) != nullptr;
    if (!left_out) record_.headers.push_back({.name = route.header_names[index], .value = value});
  }
}

void Router::set_value(const Route& route, const OutboxEvent& event) {
  const auto& payload = event.values[route.payload];
  if (!payload.is_null()) {
    record_.value = payload.text;
    return;
  }
  switch (event.table->config().on_null.payload) {
    case NullPayload::tombstone:
      record_.value.reset();
      return;
    case NullPayload::empty:
      record_.value = std::string_view();
      return;
    case NullPayload::halt:
      throw HaltError("its payload is NULL. Set on_null.payload: tombstone or empty to send such events");
  }
}

const Record& Router::route(const OutboxEvent& event, std::int64_t timestamp_ms) {
  const auto& route = route_of(event);
  set_topic(route, event);
  set_key(route, event);
  set_partition(route, event);
  set_headers(route, event);
  set_value(route, event);
  record_.timestamp_ms = timestamp_ms;
  return record_;
}

}  // namespace outbox
