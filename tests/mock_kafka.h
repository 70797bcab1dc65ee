// librdkafka's mock cluster with one broker, what stands in it, and a sink that writes to it.
//
// It checks no sequence numbers: good for mapping errors and for back-pressure, no proof of delivery.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>

#include <chrono>
#include <string>
#include <vector>

#include "sinks/kafka_sink.h"

namespace outbox {

using Clock = std::chrono::steady_clock;

class MockKafkaTest : public testing::Test {
 protected:
  static constexpr std::int16_t produce_request = 0;
  static constexpr int partitions = 4;

  MockKafkaTest() {
    host_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), nullptr, 0));
    cluster_ = rd_kafka_mock_cluster_new(host_.get(), 1);
    rd_kafka_mock_topic_create(cluster_, "t", partitions, 1);
  }
  ~MockKafkaTest() override { rd_kafka_mock_cluster_destroy(cluster_); }

  std::string bootstrap() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

  std::unique_ptr<KafkaSink> make_sink(const std::vector<std::pair<std::string, std::string>>& properties = {},
                                       std::shared_ptr<KafkaMemory> memory = nullptr) {
    KafkaConfig config{.brokers = {bootstrap()}, .properties = {{"retry.backoff.ms", "1", {}, {}}}};
    for (const auto& [name, value] : properties) config.properties.push_back({name, value, {}, {}});
    const auto keep = [this](int, const std::string& text) { log += text + "\n"; };
    return std::make_unique<KafkaSink>(config, "f.yaml", keep, std::move(memory));
  }

  void fail_next_produce(rd_kafka_resp_err_t code) {
    rd_kafka_mock_push_request_errors(cluster_, produce_request, 1, code);
  }
  void set_topic_error(const char* topic, rd_kafka_resp_err_t code) {
    rd_kafka_mock_topic_set_error(cluster_, topic, code);
  }
  void set_broker_up(bool up) {
    up ? rd_kafka_mock_broker_set_up(cluster_, 1) : rd_kafka_mock_broker_set_down(cluster_, 1);
  }
  void set_round_trip(std::chrono::milliseconds time) {
    rd_kafka_mock_broker_set_rtt(cluster_, 1, static_cast<int>(time.count()));
  }

  static void wait_for(const KafkaSink& sink) {
    pollfd one{.fd = sink.event_fd(), .events = POLLIN, .revents = 0};
    poll(&one, 1, 100);
  }

  // Collects until so many records are reported.
  static void collect(KafkaSink& sink, DeliveryReports& reports, std::size_t count) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    for (;;) {
      sink.collect(reports);
      if (reports.delivered.size() + reports.failed.size() >= count) return;
      if (Clock::now() > deadline) throw std::runtime_error("the reports do not come");
      wait_for(sink);
    }
  }

  // Everything in a topic, as "@partition[key]{header:value}=value", partition by partition.
  std::vector<std::string> consume(const char* topic, std::size_t count) {
    auto* conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap().c_str(), nullptr, 0);
    rd_kafka_conf_set(conf, "group.id", "reader", nullptr, 0);
    const KafkaProducer reader(rd_kafka_new(RD_KAFKA_CONSUMER, conf, nullptr, 0));
    auto* list = rd_kafka_topic_partition_list_new(partitions);
    for (int partition = 0; partition < partitions; ++partition) {
      rd_kafka_topic_partition_list_add(list, topic, partition)->offset = 0;
    }
    rd_kafka_assign(reader.get(), list);
    rd_kafka_topic_partition_list_destroy(list);
    std::vector<std::string> found;
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (found.size() < count && Clock::now() < deadline) {
      auto* message = rd_kafka_consumer_poll(reader.get(), 100);
      if (message == nullptr) continue;
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) found.push_back(shown(message));
      rd_kafka_message_destroy(message);
    }
    rd_kafka_consumer_close(reader.get());
    return found;
  }

  // How many records stand in partition 0 of a topic.
  std::int64_t end_offset(const char* topic) {
    if (!observer_) {
      auto* conf = rd_kafka_conf_new();
      rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap().c_str(), nullptr, 0);
      observer_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, conf, nullptr, 0));
    }
    std::int64_t low = 0;
    std::int64_t high = 0;
    const auto code = rd_kafka_query_watermark_offsets(observer_.get(), topic, 0, &low, &high, 10000);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2str(code));
    return high;
  }

  std::string log;

 private:
  static std::string shown(const rd_kafka_message_t* message) {
    const auto text = [](const void* bytes, std::size_t size) {
      return bytes == nullptr ? std::string("NULL") : "'" + std::string(static_cast<const char*>(bytes), size) + "'";
    };
    std::string out = fmt::format("@{}[{}]", message->partition, text(message->key, message->key_len));
    rd_kafka_headers_t* headers = nullptr;
    rd_kafka_message_headers(message, &headers);
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t index = 0;
         headers != nullptr && rd_kafka_header_get_all(headers, index, &name, &value, &size) == 0; ++index) {
      out += fmt::format("{{{}:{}}}", name, std::string(static_cast<const char*>(value), size));
    }
    return out + "=" + text(message->payload, message->len);
  }

  KafkaProducer host_;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
  KafkaProducer observer_;
};

}  // namespace outbox
