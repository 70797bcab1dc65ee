// The checkpoint topic of a slot: what it is called, and its first record.
#pragma once

#include "cdc/replication_connection.h"
#include "config/config.h"
#include "sinks/kafka_transactions.h"

namespace outbox {

// Bound to system, database and slot, so that two relays of one slot have the same and all others do not.
TransactionIdentity transaction_identity(const Config& config, const std::string& system_identifier);

// Makes the topic where it is missing, and writes that everything up to `confirmed` is delivered where it holds no
// checkpoint, or with `reset`. Throws FatalError.
void write_first_checkpoint(const Config& config, const SystemIdentity& identity, Lsn confirmed, bool reset);

}  // namespace outbox
