// From inserted rows to outbox events: which relation is which outbox table, and which column is what.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cdc/pgoutput.h"
#include "config/config.h"

namespace outbox {

// The entry of the configuration that each relation belongs to, by oid: the configured tables and, below a
// partitioned one, its leaves. Read from the catalog when a session begins.
using RelationMap = std::unordered_map<pgoutput::Oid, std::size_t>;

// An outbox table as the stream describes it at this point: columns by name, whatever their order.
class OutboxTable {
 public:
  OutboxTable(const OutboxConfig& config, const pgoutput::Relation& relation);

  const OutboxConfig& config() const { return *config_; }
  const std::string& name() const { return name_; }  // schema.table, for messages.
  std::size_t column_count() const { return columns_.size(); }

  // The index of a mapped name (aggregate_type) or, failing that, of a column; nothing where there is neither.
  std::optional<std::size_t> find(std::string_view name) const;

  // The same, for a column that an event cannot do without. Throws HaltError naming the table and the column.
  std::size_t require(std::string_view name, std::string_view needed_for) const;

 private:
  const OutboxConfig* config_;
  std::string name_;
  std::vector<std::string> columns_;
};

// One inserted row of an outbox table. The views are those of the pgoutput message.
struct OutboxEvent {
  pgoutput::Oid relation;
  const OutboxTable* table;
  std::span<const pgoutput::TupleValue> values;
};

class OutboxDecoder {
 public:
  // Keeps a reference: `outbox` outlives the decoder.
  explicit OutboxDecoder(const std::vector<OutboxConfig>& outbox) : outbox_(&outbox) {}

  // A new stream: forgets every relation, since the server describes each again before its next row. Tables that
  // an earlier stream of this process resolved stay resolved, so that a renamed one flows on.
  void restart(const RelationMap& catalog);

  // Returns the outbox table that the relation is, or null for a published table that is none of ours.
  const OutboxTable* learn(const pgoutput::Relation& relation);

  // Throws UnknownRelation for a table that is none of ours, ProtocolError for a row that does not fit its relation.
  OutboxEvent decode(const pgoutput::Insert& insert) const;

 private:
  std::optional<std::size_t> entry_of(const pgoutput::Relation& relation) const;

  const std::vector<OutboxConfig>* outbox_;
  RelationMap catalog_;
  std::unordered_map<pgoutput::Oid, OutboxTable> tables_;
  std::unordered_map<pgoutput::Oid, std::string> others_;  // Names of published tables that are none of ours.
};

// The column that carries `mapped`, one of the mapped names; nothing for any other name.
std::optional<std::string_view> mapped_column(const ColumnNames& columns, std::string_view mapped);

}  // namespace outbox
