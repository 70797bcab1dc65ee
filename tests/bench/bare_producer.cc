// The floor on Kafka's side: produces records of the relay's shape with the relay's guarantee
// (idempotent, acks=all) and nothing else, either as fast as the queue takes them or at a rate.
//
// Every value starts with its number and the moment it was made, which is what
// bench_latency_consumer reads.

#include <charconv>

#include "bench_kafka.h"

namespace {

using bench::monotonic_ns;

// Text with decimal fields of a fixed width that are written in place, since formatting a value
// anew for each record would be a visible part of the floor.
class Template {
 public:
  explicit Template(std::string text) : text_(std::move(text)) {}

  void put(std::size_t position, std::size_t width, std::int64_t number) {
    for (std::size_t i = position + width; i-- > position; number /= 10) {
      text_[i] = static_cast<char>('0' + number % 10);
    }
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The payload that the loader gives to PostgreSQL, grown to the wanted size by its note.
class Value {
 public:
  explicit Value(std::size_t bytes) : template_(make(bytes)) {}

  void stamp(std::int64_t number, std::int64_t epoch_ns) {
    template_.put(6, 9, 100'000'000 + number);  // No leading zero: JSON knows none.
    template_.put(22, 19, epoch_ns);
  }

  const std::string& text() const { return template_.text(); }

 private:
  static std::string make(std::size_t bytes) {
    const std::string head = R"({"n": 100000000, "t": 1000000000000000000, "order": {"id": 100000000, "lines": )"
                             R"([{"qty": 2, "sku": "SKU-100200", "price": "19.90"}, )"
                             R"({"qty": 1, "sku": "SKU-100201", "price": "5.00"}], "customer": )"
                             R"({"id": 4711, "name": "A. Customer"}}, "note": ")";
    const std::string tail = R"("})";
    const std::size_t fixed = head.size() + tail.size();
    return head + std::string(bytes > fixed ? bytes - fixed : 0, 'x') + tail;
  }

  Template template_;
};

struct Delivered {
  std::int64_t records = 0;
  std::int64_t failures = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
};

void delivery_report(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  auto& delivered = *static_cast<Delivered*>(opaque);
  if (delivered.records++ == 0) delivered.first_ns = monotonic_ns();
  if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) ++delivered.failures;
}

class BareProducer {
 public:
  explicit BareProducer(const bench::Flags& flags)
      : give_up_ns_(monotonic_ns() + flags.count("timeout-s") * 1'000'000'000),
        keys_(flags.count("keys")),
        value_(static_cast<std::size_t>(flags.count("bytes"))) {
    bench::KafkaConf conf(rd_kafka_conf_new());
    bench::set(conf, "bootstrap.servers", flags.text("brokers"));
    bench::set(conf, "enable.idempotence", "true");
    bench::set(conf, "acks", "all");
    bench::set(conf, "message.timeout.ms", "0");
    bench::set(conf, "partitioner", "murmur2_random");
    bench::set(conf, "socket.nagle.disable", "true");
    bench::set(conf, "linger.ms", flags.text("linger-ms"));
    bench::set(conf, "queue.buffering.max.messages", flags.text("queue-messages"));
    bench::set(conf, "queue.buffering.max.kbytes", flags.text("queue-kbytes"));
    for (const auto& [name, value] : flags.properties()) bench::set(conf, name, value);
    rd_kafka_conf_set_dr_msg_cb(conf.get(), delivery_report);
    rd_kafka_conf_set_opaque(conf.get(), &delivered_);
    client_ = bench::make_client(RD_KAFKA_PRODUCER, std::move(conf));
    for (const std::string& name : flags.list("topics")) {
      topics_.emplace_back(rd_kafka_topic_new(client_.get(), name.c_str(), nullptr));
    }
    if (topics_.empty()) throw bench::UsageError("--topics names no topic");
    ask_for_topics_at_start();
  }

  void produce_at_once(std::int64_t records) {
    for (std::int64_t number = 0; number < records; ++number) {
      send(number);
      // Reports come in batches; looking for them after every record would cost more than they do.
      if (number % 64 == 0) rd_kafka_poll(client_.get(), 0);
    }
    wait_for_reports();
  }

  // `tick_ns` > 0 hands the records over in bursts, as a reader in bulk would.
  void produce_at_rate(std::int64_t records, double rate, std::int64_t tick_ns) {
    const std::int64_t start_ns = monotonic_ns();
    for (std::int64_t number = 0; number < records; ++number) {
      std::int64_t due_ns = start_ns + static_cast<std::int64_t>(static_cast<double>(number) / rate * 1e9);
      if (tick_ns > 0) due_ns = start_ns + (due_ns - start_ns + tick_ns - 1) / tick_ns * tick_ns;
      if (due_ns > monotonic_ns()) {
        rd_kafka_poll(client_.get(), 0);
        bench::sleep_until_ns(due_ns);
      }
      send(number);
    }
    wait_for_reports();
  }

  const Delivered& delivered() const { return delivered_; }

 private:
  // A topic first met by a record may cost that record a second in librdkafka before 2.10.1.
  void ask_for_topics_at_start() {
    for (const auto& topic : topics_) {
      const rd_kafka_metadata_t* metadata = nullptr;
      bench::expect(rd_kafka_metadata(client_.get(), 0, topic.get(), &metadata, 10'000), "asking for metadata");
      rd_kafka_metadata_destroy(metadata);
    }
  }

  void send(std::int64_t number) {
    char key[32] = "order-";
    const auto key_bytes = static_cast<std::size_t>(std::to_chars(key + 6, key + sizeof key, number % keys_).ptr - key);
    static char id[] = "0b9c6e0a-5f0e-4d3a-9d4b-100000000000";
    static const char event_type[] = "OrderPlaced";
    value_.stamp(number, bench::epoch_ns());
    const std::string& value = value_.text();
    rd_kafka_topic_t* topic = topics_[static_cast<std::size_t>(number) % topics_.size()].get();
    for (;;) {
      const auto error =
          rd_kafka_producev(client_.get(), RD_KAFKA_V_RKT(topic), RD_KAFKA_V_KEY(key, key_bytes),
                            RD_KAFKA_V_VALUE(const_cast<char*>(value.data()), value.size()),
                            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADER("id", id, sizeof id - 1),
                            RD_KAFKA_V_HEADER("event_type", event_type, sizeof event_type - 1), RD_KAFKA_V_END);
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        bench::expect(error, "producing");
        ++sent_;
        return;
      }
      poll_for_reports();
    }
  }

  void wait_for_reports() {
    while (delivered_.records < sent_) poll_for_reports();
    delivered_.last_ns = monotonic_ns();
    if (delivered_.failures > 0) throw std::runtime_error("records were not delivered");
  }

  void poll_for_reports() {
    if (monotonic_ns() > give_up_ns_) throw std::runtime_error("timed out");
    rd_kafka_poll(client_.get(), 100);
  }

  std::int64_t give_up_ns_;
  std::int64_t keys_;
  Value value_;
  Delivered delivered_;
  std::int64_t sent_ = 0;
  bench::KafkaClient client_;
  std::vector<bench::KafkaTopic> topics_;  // After the client: destroyed before it.
};

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t started_ns = monotonic_ns();
  return bench::run_main([&] {
    const bench::Flags flags(argc, argv,
                             {{"brokers", ""},
                              {"topics", ""},
                              {"events", "500000"},
                              {"bytes", "330"},
                              {"keys", "1000"},
                              {"linger-ms", "5"},
                              {"queue-messages", "100000"},
                              {"queue-kbytes", "1048576"},
                              {"rate", "0"},
                              {"tick-us", "0"},
                              {"timeout-s", "300"}});
    BareProducer producer(flags);
    const std::int64_t producing_ns = monotonic_ns();
    if (flags.number("rate") > 0) {
      producer.produce_at_rate(flags.count("events"), flags.number("rate"), flags.count("tick-us") * 1000);
    } else {
      producer.produce_at_once(flags.count("events"));
    }
    const Delivered& delivered = producer.delivered();
    bench::JsonLine()
        .add("events", delivered.records)
        .add("seconds", bench::seconds_between(producing_ns, delivered.last_ns))
        .add("start_to_first_seconds", bench::seconds_between(started_ns, delivered.first_ns))
        .add("total_seconds", bench::seconds_between(started_ns, delivered.last_ns))
        .add_usage()
        .print();
  });
}
