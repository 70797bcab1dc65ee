// Serves librdkafka's mock cluster to other processes: prints its bootstrap address, runs until
// its standard input closes.
//
// The mock checks no sequence numbers: it is a sink for measuring speed, never a proof of delivery.

#include <unistd.h>

#include "bench_kafka.h"

// After rdkafka.h, which it does not include itself.
#include <librdkafka/rdkafka_mock.h>

int main(int argc, char** argv) {
  return bench::run_main([&] {
    const bench::Flags flags(argc, argv, {{"topics", ""}, {"partitions", "4"}, {"brokers", "1"}});
    using MockCluster = std::unique_ptr<rd_kafka_mock_cluster_t, bench::FreeWith<rd_kafka_mock_cluster_destroy>>;

    const bench::KafkaClient host = bench::make_client(RD_KAFKA_PRODUCER, bench::KafkaConf(rd_kafka_conf_new()));
    const int brokers = static_cast<int>(flags.count("brokers"));
    const MockCluster cluster(rd_kafka_mock_cluster_new(host.get(), brokers));
    if (!cluster) throw std::runtime_error("the mock cluster did not start");
    for (const std::string& topic : flags.list("topics")) {
      bench::expect(rd_kafka_mock_topic_create(cluster.get(), topic.c_str(),
                                               static_cast<int>(flags.count("partitions")), brokers),
                    "creating topic " + topic);
    }
    std::cout << rd_kafka_mock_cluster_bootstraps(cluster.get()) << std::endl;

    char ignored = 0;
    while (read(STDIN_FILENO, &ignored, 1) > 0) {
    }
  });
}
