// Receives records from the end of the topics on and compares the moment in each payload ("t", from
// bench_latency_writer or bench_bare_producer) with the moment it arrives here.
//
// Prints "ready" once its position in every partition is fixed, later one line of JSON. With --out,
// a line "n t received_ns" is kept for each record, for a comparison with other moments.

#include <algorithm>
#include <charconv>
#include <fstream>

#include "bench_kafka.h"

namespace {

using bench::monotonic_ns;

struct Received {
  std::int64_t number;
  std::int64_t sent_ns;
  std::int64_t received_ns;
};

// The number that follows `name` in a payload such as {"n": 7, "t": 1700000000000000000, …}.
std::int64_t number_after(std::string_view payload, std::string_view name) {
  const auto position = payload.find(name);
  std::int64_t number = 0;
  if (position == std::string_view::npos ||
      std::from_chars(payload.data() + position + name.size(), payload.data() + payload.size(), number).ec !=
          std::errc()) {
    throw std::runtime_error("a record without " + std::string(name));
  }
  return number;
}

bench::KafkaClient make_consumer(const bench::Flags& flags) {
  bench::KafkaConf conf(rd_kafka_conf_new());
  bench::set(conf, "bootstrap.servers", flags.text("brokers"));
  bench::set(conf, "group.id", "bench");  // Demanded by the client; nothing is committed to it.
  bench::set(conf, "enable.auto.commit", "false");
  bench::set(conf, "fetch.min.bytes", "1");
  bench::set(conf, "fetch.wait.max.ms", flags.text("fetch-wait-ms"));
  bench::set(conf, "socket.nagle.disable", "true");
  for (const auto& [name, value] : flags.properties()) bench::set(conf, name, value);
  bench::KafkaClient consumer = bench::make_client(RD_KAFKA_CONSUMER, std::move(conf));
  bench::expect(rd_kafka_poll_set_consumer(consumer.get()), "redirecting the queue");
  return consumer;
}

void add_partitions_at_their_end(rd_kafka_t* consumer, const std::string& topic,
                                 const bench::KafkaPartitions& partitions) {
  const bench::KafkaTopic handle(rd_kafka_topic_new(consumer, topic.c_str(), nullptr));
  const rd_kafka_metadata_t* metadata = nullptr;
  bench::expect(rd_kafka_metadata(consumer, 0, handle.get(), &metadata, 10'000), "asking for metadata");
  const int count = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  if (count == 0) throw std::runtime_error("topic " + topic + " has no partitions");
  for (int partition = 0; partition < count; ++partition) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    bench::expect(rd_kafka_query_watermark_offsets(consumer, topic.c_str(), partition, &low, &high, 10'000),
                  "asking for the end of " + topic);
    rd_kafka_topic_partition_list_add(partitions.get(), topic.c_str(), partition)->offset = high;
  }
}

void assign_at_end(rd_kafka_t* consumer, const std::vector<std::string>& topics) {
  const bench::KafkaPartitions partitions(rd_kafka_topic_partition_list_new(0));
  for (const std::string& topic : topics) add_partitions_at_their_end(consumer, topic, partitions);
  bench::expect(rd_kafka_assign(consumer, partitions.get()), "assigning partitions");
}

std::vector<Received> receive(rd_kafka_t* consumer, std::size_t wanted, std::int64_t give_up_ns) {
  std::vector<Received> received;
  received.reserve(wanted);
  while (received.size() < wanted && monotonic_ns() < give_up_ns) {
    const bench::KafkaMessage message(rd_kafka_consumer_poll(consumer, 100));
    if (!message) continue;
    const std::int64_t now_ns = bench::epoch_ns();
    bench::expect(message->err, "consuming");
    const std::string_view payload(static_cast<const char*>(message->payload), message->len);
    received.push_back({number_after(payload, "\"n\": "), number_after(payload, "\"t\": "), now_ns});
  }
  return received;
}

void save(const std::string& path, const std::vector<Received>& records) {
  std::ofstream out(path);
  for (const Received& record : records) {
    out << record.number << ' ' << record.sent_ns << ' ' << record.received_ns << '\n';
  }
  if (!out.flush()) throw std::runtime_error("writing " + path + " failed");
}

void print_summary(const std::vector<Received>& records, std::size_t wanted) {
  std::vector<std::int64_t> latencies_ns;
  for (const Received& record : records) {
    latencies_ns.push_back(record.received_ns - record.sent_ns);
  }
  std::sort(latencies_ns.begin(), latencies_ns.end());
  const auto percentile_ms = [&](std::size_t percent) {
    if (latencies_ns.empty()) return 0.0;
    return static_cast<double>(latencies_ns[(latencies_ns.size() - 1) * percent / 100]) / 1e6;
  };
  bench::JsonLine()
      .add("events", records.size())
      .add("missing", wanted - records.size())
      .add("p50_ms", percentile_ms(50))
      .add("p95_ms", percentile_ms(95))
      .add("p99_ms", percentile_ms(99))
      .add("max_ms", percentile_ms(100))
      .add_usage()
      .print();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main([&] {
    const bench::Flags flags(argc, argv,
                             {{"brokers", ""},
                              {"topics", ""},
                              {"events", "1000"},
                              {"fetch-wait-ms", "100"},
                              {"out", ""},
                              {"timeout-s", "120"}});
    const auto wanted = static_cast<std::size_t>(flags.count("events"));
    const std::int64_t give_up_ns = monotonic_ns() + flags.count("timeout-s") * 1'000'000'000;
    const bench::KafkaClient consumer = make_consumer(flags);
    assign_at_end(consumer.get(), flags.list("topics"));
    std::cout << "ready" << std::endl;
    const std::vector<Received> records = receive(consumer.get(), wanted, give_up_ns);
    if (!flags.text("out").empty()) save(flags.text("out"), records);
    print_summary(records, wanted);
    bench::expect(rd_kafka_consumer_close(consumer.get()), "closing the consumer");
  });
}
