// libpq's C handles, owned.
#pragma once

#include <libpq-fe.h>

#include <memory>

namespace outbox {

template <auto Free>
struct PgFree {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    Free(pointer);
  }
};

using PgConnectionHandle = std::unique_ptr<PGconn, PgFree<PQfinish>>;
using PgResult = std::unique_ptr<PGresult, PgFree<PQclear>>;
using PgCopyBuffer = std::unique_ptr<char, PgFree<PQfreemem>>;
using PgText = std::unique_ptr<char, PgFree<PQfreemem>>;
using PgCancelRequest = std::unique_ptr<PGcancel, PgFree<PQfreeCancel>>;
using PgOptions = std::unique_ptr<PQconninfoOption, PgFree<PQconninfoFree>>;

}  // namespace outbox
