// libpq for the bench programs: owners, and errors as exceptions.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "bench.h"

namespace bench {

using PgConnection = std::unique_ptr<PGconn, FreeWith<PQfinish>>;
using PgResult = std::unique_ptr<PGresult, FreeWith<PQclear>>;
using PgCopyBuffer = std::unique_ptr<char, FreeWith<PQfreemem>>;

inline PgConnection connect(const std::string& conninfo) {
  PgConnection connection(PQconnectdb(conninfo.c_str()));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection.get()));
  }
  return connection;
}

inline void expect(const PGconn* connection, const PgResult& result, ExecStatusType status) {
  if (PQresultStatus(result.get()) != status) {
    throw std::runtime_error(PQerrorMessage(connection));
  }
}

}  // namespace bench
