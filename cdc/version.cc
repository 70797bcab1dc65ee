#include "cdc/version.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>

namespace outbox {

BuildInfo build_info() {
  return {.version = OUTBOX_VERSION,
          .revision = OUTBOX_REVISION,
          .librdkafka = rd_kafka_version_str(),
          .libpq = fmt::format("{}.{}", PQlibVersion() / 10000, PQlibVersion() % 10000),
          .compiler = OUTBOX_COMPILER};
}

}  // namespace outbox
