// From an outbox event to a record: topic, key, headers and value, by the templates of its entry.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "cdc/outbox_decoder.h"
#include "sinks/record.h"

namespace outbox {

// A template whose column names have become indices into a row.
class BoundTemplate {
 public:
  // Throws HaltError where the table lacks a column of it; `needed_for` names the template in that message.
  BoundTemplate(const Template& source, const OutboxTable& table, std::string_view needed_for);

  // Writes the text into `out`, which is cleared first. Returns the name of the first column that is NULL, or null.
  const std::string* render(std::span<const pgoutput::TupleValue> values, std::string& out) const;

 private:
  struct Piece {
    bool is_column;
    std::string text;  // The literal, or the column's name for messages.
    std::size_t column;
  };
  std::vector<Piece> pieces_;
};

struct RouterCounts {
  std::uint64_t null_keys = 0;  // Records sent without a key because on_null.key is `send`.
};

class Router {
 public:
  // A new stream: forgets every table.
  void restart() { routes_.clear(); }

  // A table as the stream describes it; binding is put off to its next event, so that a table without events
  // halts nobody.
  void learn(pgoutput::Oid relation) { routes_.erase(relation); }

  // The record's views point into the router and the event, until either is used again. Throws HaltError where a
  // required column is missing or NULL, or where the topic is none that Kafka takes.
  const Record& route(const OutboxEvent& event, std::int64_t timestamp_ms);

  const RouterCounts& counts() const { return counts_; }

 private:
  struct Route {
    explicit Route(const OutboxTable& table);

    BoundTemplate topic;
    BoundTemplate key;
    std::optional<BoundTemplate> partition;
    std::vector<std::string> header_names;
    std::vector<BoundTemplate> headers;
    std::size_t payload;
  };

  const Route& route_of(const OutboxEvent& event);
  void set_topic(const Route& route, const OutboxEvent& event);
  void set_key(const Route& route, const OutboxEvent& event);
  void set_partition(const Route& route, const OutboxEvent& event);
  void set_headers(const Route& route, const OutboxEvent& event);
  void set_value(const Route& route, const OutboxEvent& event);

  std::unordered_map<pgoutput::Oid, Route> routes_;
  RouterCounts counts_;

  // The text of the record at hand; reused, so that a record allocates nothing.
  Record record_;
  std::string topic_;
  std::string valid_topic_;  // The last topic that was checked.
  std::string key_;
  std::string partition_;
  std::vector<std::string> header_values_;
};

// The topics that the configuration names outright; the others are known only once an event comes by.
std::vector<std::string> literal_topics(const Config& config);

}  // namespace outbox
