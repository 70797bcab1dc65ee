#include "cdc/outbox_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cdc/errors.h"

namespace outbox {

std::optional<std::string_view> mapped_column(const ColumnNames& columns, std::string_view mapped) {
  if (mapped == "id") return columns.id;
  if (mapped == "aggregate_type") return columns.aggregate_type;
  if (mapped == "aggregate_id") return columns.aggregate_id;
  if (mapped == "event_type") return columns.event_type;
  if (mapped == "payload") return columns.payload;
  return std::nullopt;
}

OutboxTable::OutboxTable(const OutboxConfig& config, const pgoutput::Relation& relation)
    : config_(&config), name_(fmt::format("{}.{}", relation.schema, relation.name)), columns_(relation.columns) {}

std::optional<std::size_t> OutboxTable::find(std::string_view name) const {
  const auto column = mapped_column(config_->columns, name).value_or(name);
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

std::size_t OutboxTable::require(std::string_view name, std::string_view needed_for) const {
  if (const auto index = find(name)) return *index;
  const auto column = mapped_column(config_->columns, name).value_or(name);
  throw HaltError(
      fmt::format("table {} has no column \"{}\", which {} needs; the row has {}. Name the column that it has under "
                  "outbox[].columns or in the templates (a row keeps the columns that it was written with: one that is "
                  "added to the "
                  "table, or to the publication's column list, helps later rows alone)",
                  name_, column, needed_for, fmt::join(columns_, ", ")));
}

void OutboxDecoder::restart(const RelationMap& catalog) {
  for (const auto& [oid, entry] : catalog) catalog_[oid] = entry;
  tables_.clear();
  others_.clear();
}

std::optional<std::size_t> OutboxDecoder::entry_of(const pgoutput::Relation& relation) const {
  if (const auto known = catalog_.find(relation.oid); known != catalog_.end()) return known->second;
  // A table dropped and made again has a new oid and its old name.
  for (std::size_t entry = 0; entry < outbox_->size(); ++entry) {
    const auto& table = (*outbox_)[entry].table;
    if (table.schema == relation.schema && table.name == relation.name) return entry;
  }
  return std::nullopt;
}

const OutboxTable* OutboxDecoder::learn(const pgoutput::Relation& relation) {
  tables_.erase(relation.oid);
  others_.erase(relation.oid);
  const auto entry = entry_of(relation);
  if (!entry) {
    others_.emplace(relation.oid, fmt::format("{}.{}", relation.schema, relation.name));
    return nullptr;
  }
  const auto [table, inserted] = tables_.emplace(relation.oid, OutboxTable((*outbox_)[*entry], relation));
  return &table->second;
}

OutboxEvent OutboxDecoder::decode(const pgoutput::Insert& insert) const {
  const auto found = tables_.find(insert.relation);
  if (found == tables_.end()) {
    const auto other = others_.find(insert.relation);
    if (other == others_.end()) {
      throw ProtocolError(
          fmt::format("Insert message from PostgreSQL for relation {}, which it has not described", insert.relation));
    }
    throw UnknownRelation(fmt::format(
        "the publication also publishes {}, which no outbox entry names. Add it under outbox:, or take it out: "
        "ALTER PUBLICATION … DROP TABLE {}",
        other->second, other->second));
  }
  const auto& table = found->second;
  if (insert.values.size() != table.column_count()) {
    throw ProtocolError(fmt::format("Insert message from PostgreSQL has {} columns where {} has {}",
                                    insert.values.size(), table.name(), table.column_count()));
  }
  return {.relation = insert.relation, .table = &table, .values = insert.values};
}

}  // namespace outbox
