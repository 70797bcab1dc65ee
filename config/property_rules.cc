// Keys and values that are handed to libpq or librdkafka as they are: the ones that are refused,
// and the secrets.
#include "config/properties.h"

namespace outbox {
namespace {

constexpr RefusedProperty kLibpqRefused[] = {
    {"host", "use source.host"},
    {"port", "use source.port"},
    {"dbname", "use source.database"},
    {"user", "use source.user"},
    {"password", "use source.password or source.password_file"},
    {"replication", "the relay sets it for each of its connections"},
    {"client_encoding", "it is pinned to UTF8, which payloads rely on"},
    {"fallback_application_name", "use application_name"},
};

constexpr std::string_view kLibpqSecrets[] = {"sslpassword", "oauth_client_secret"};

constexpr std::string_view kOrder = "events of one key would get lost, doubled or out of order";
constexpr std::string_view kTimeout =
    "it is pinned to 0 (never), since a record that timed out would be missing; see "
    "http.unready_after";
constexpr std::string_view kRetries = "it is pinned, since an outage has to become waiting, never loss";
constexpr std::string_view kCode = "it takes a pointer of the program, which a file cannot hold";

constexpr RefusedProperty kKafkaRefused[] = {
    {"bootstrap.servers", "use sink.kafka.brokers"},
    {"metadata.broker.list", "use sink.kafka.brokers"},
    {"enable.idempotence", "it is pinned to true; otherwise events of one key would get doubled or out of order"},
    {"acks", "it is pinned to all; with less, an acknowledged event could be lost with one broker"},
    {"request.required.acks", "it is pinned to all; with less, an acknowledged event could be lost with one broker"},
    {"message.timeout.ms", kTimeout},
    {"delivery.timeout.ms", kTimeout},
    {"retries", kRetries},
    {"message.send.max.retries", kRetries},
    {"max.in.flight", kOrder},
    {"max.in.flight.requests.per.connection", kOrder},
    {"queuing.strategy", kOrder},
    {"msg_order_cmp", kOrder},
    {"partitioner", "it is pinned to murmur2_random, which puts a key where Java producers put it"},
    {"enable.gapless.guarantee", "the relay itself stops at the first record that cannot be delivered"},
    {"transactional.id", "the relay decides on transactions, and its name must be bound to the slot"},
    {"delivery.report.only.error", "the slot is confirmed by the reports of what was delivered"},
    {"plugin.library.paths", "it would load code into the relay"},
    {"interceptors", "it would load code into the relay"},
    {"opaque", kCode},
    {"default_topic_conf", kCode},
    {"ssl_engine_callback_data", kCode},
    {"*_cb", kCode},
    {"log.queue", "the relay reads the log of the library where it expects it"},
    {"enabled_events", "the relay needs the events that it asks for"},
    {"test.mock.*", "it would replace the brokers by a mock that keeps nothing"},
};

constexpr std::string_view kKafkaSecrets[] = {
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
};

}  // namespace

const PropertyRules kLibpqRules{.library = "libpq", .refused = kLibpqRefused, .secrets = kLibpqSecrets};
const PropertyRules kKafkaRules{.library = "librdkafka", .refused = kKafkaRefused, .secrets = kKafkaSecrets};

}  // namespace outbox
