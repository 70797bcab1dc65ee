#include "cdc/byte_reader.h"

#include <fmt/format.h>

#include "cdc/errors.h"

namespace outbox {

void ByteReader::fail_short() const {
  throw ProtocolError(fmt::format("{} message from PostgreSQL is cut short", what_));
}

void ByteReader::fail_trailing() const {
  throw ProtocolError(fmt::format("{} message from PostgreSQL has {} bytes after its end", what_, rest_.size()));
}

}  // namespace outbox
