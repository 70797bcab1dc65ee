// Makes what the relay reads from: the publication first, then the slot.
#pragma once

#include "cdc/catalog.h"
#include "cdc/pg_connection.h"
#include "config/config.h"

namespace outbox {

Catalog read_catalog(PgConnection& connection, const Config& config, TimePoint deadline);

// Waits for no lock longer than a few seconds; throws FatalError naming who holds it, or the statement that whoever
// owns the table has to run where we may not.
void create_publication(PgConnection& connection, const Config& config);

// On a replication connection. Waits for every transaction that is open when it begins, however long that takes.
void create_slot(PgConnection& connection, const Config& config, bool temporary = false);

}  // namespace outbox
