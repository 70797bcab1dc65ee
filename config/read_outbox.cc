// The `outbox` and `defaults` sections: which tables hold events and what becomes of a row.
#include <map>
#include <string>
#include <utility>

#include "config/sections.h"
#include "config/template.h"

namespace outbox {
namespace {

using Piece = Template::Piece;

Template literal_and_column(const char* literal, const char* column) {
  Template pattern;
  if (*literal != '\0') pattern.pieces.push_back({Piece::Kind::literal, literal});
  pattern.pieces.push_back({Piece::Kind::column, column});
  return pattern;
}

OutboxConfig built_in_entry() {
  OutboxConfig entry;
  entry.route.topic = literal_and_column("outbox.event.", "aggregate_type");
  entry.route.key = literal_and_column("", "aggregate_id");
  entry.route.headers = {{.name = "id", .value = literal_and_column("", "id")},
                         {.name = "event_type", .value = literal_and_column("", "event_type")}};
  return entry;
}

void read_headers(const ValueReader& value, std::vector<HeaderTemplate>& into) {
  const auto entries = value.free_map();
  if (!entries) return;
  into.clear();
  for (const auto& [name, mark, entry] : *entries) {
    if (name.empty()) entry.refuse_key("a header needs a name");
    if (auto pattern = entry.pattern()) into.push_back({.name = name, .value = *std::move(pattern)});
  }
}

// Checks what a template may be in its place; `refuse_this` is one of template.h.
template <typename Refuse>
void read_pattern(const MapReader& route, std::string_view key, Template& into, Refuse refuse_this) {
  const auto value = route.pattern(key, into);
  if (!value) return;
  if (const auto refusal = refuse_this(into)) value->refuse(*refusal);
}

void read_route(const MapReader& route, RouteConfig& into) {
  read_pattern(route, "topic", into.topic, refuse_topic);
  read_pattern(route, "key", into.key, refuse_key);
  if (route.find("partition")) read_pattern(route, "partition", into.partition.emplace(), refuse_partition);
  if (const auto headers = route.find("headers")) read_headers(*headers, into.headers);
}

void read_columns(const MapReader& columns, ColumnNames& into) {
  columns.identifier("id", into.id);
  columns.identifier("aggregate_type", into.aggregate_type);
  columns.identifier("aggregate_id", into.aggregate_id);
  columns.identifier("event_type", into.event_type);
  columns.identifier("payload", into.payload);
}

void read_on_null(const MapReader& on_null, OnNullConfig& into) {
  on_null.choice("key", into.key, {{"halt", NullKey::halt}, {"send", NullKey::send}});
  on_null.choice("payload", into.payload,
                 {{"tombstone", NullPayload::tombstone}, {"empty", NullPayload::empty}, {"halt", NullPayload::halt}});
}

// What `defaults` and an entry have in common; what is not said keeps its value, key by key.
void read_entry(const MapReader& entry, OutboxConfig& into) {
  if (const auto columns = entry.map("columns")) read_columns(*columns, into.columns);
  if (const auto route = entry.map("route")) read_route(*route, into.route);
  if (const auto on_null = entry.map("on_null")) read_on_null(*on_null, into.on_null);
}

}  // namespace

std::vector<OutboxConfig> read_outbox(const MapReader& root) {
  OutboxConfig base = built_in_entry();
  if (const auto defaults = root.map("defaults")) read_entry(*defaults, base);
  const auto value = root.find("outbox");
  if (!value) return {base};
  const auto items = value->list("expected a list of entries (- table: …)");
  if (!items) return {base};
  if (items->empty()) value->refuse("needs at least one entry; without the key there is one for public.outbox_events");
  std::vector<OutboxConfig> outbox;
  std::map<std::pair<std::string, std::string>, int> lines;
  for (const ValueReader& item : *items) {
    const auto map = item.map();
    if (!map) continue;
    OutboxConfig entry = base;
    entry.mark = item.mark();
    if (const auto table = map->map("table")) {
      table->identifier("schema", entry.table.schema);
      table->identifier("name", entry.table.name);
    }
    read_entry(*map, entry);
    const auto [first, is_new] = lines.emplace(std::pair(entry.table.schema, entry.table.name), entry.mark.line);
    if (!is_new) {
      map->refuse("the table " + entry.table.schema + "." + entry.table.name + " has its entry in line " +
                  std::to_string(first->second) + " already");
    }
    outbox.push_back(std::move(entry));
  }
  return outbox;
}

}  // namespace outbox
