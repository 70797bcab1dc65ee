// The contract of a place to put records.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "sinks/record.h"

namespace outbox {

// The sink as a whole cannot go on (a fatal producer error): destroy it, make another, send again.
class SinkBroken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Each accepted record is reported exactly once, delivered or failed, in any order; records with the same topic
// and key become durable in send() order. Nothing here blocks. Not thread-safe: one thread calls everything.
class Sink {
 public:
  enum class SendResult { accepted, full };

  virtual ~Sink() = default;

  // Takes a copy of the record, or says `full` and takes nothing; room comes as reports are collected.
  virtual SendResult send(const Record& record, Ticket ticket) = 0;

  // Appends the reports that have come in. Throws SinkBroken.
  virtual void collect(DeliveryReports& reports) = 0;

  // Readable when collect() has something to do; stays valid as long as the sink.
  virtual int event_fd() const = 0;

  // Asks for what the first record to each topic would otherwise wait for. A hint; may do nothing.
  virtual void expect_topics(const std::vector<std::string>& /*topics*/) {}
};

}  // namespace outbox
