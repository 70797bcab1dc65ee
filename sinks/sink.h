// The contract of a place to put records.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sinks/record.h"

namespace outbox {

// The sink as a whole cannot go on (a fatal producer error): destroy it, make another, send again.
class SinkBroken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The sink works, but another one has to take its place at once, such as one with new credentials. `reason` is a metric
// label: batch_size or credentials.
class SinkOutdated : public SinkBroken {
 public:
  SinkOutdated(const std::string& text, const char* reason) : SinkBroken(text), reason_(reason) {}
  const char* reason() const { return reason_; }

 private:
  const char* reason_;
};

// Another producer has taken this one's place, or the broker has timed its transaction out: who may go on is decided
// elsewhere, so give up what stands for the right to send before trying again.
class SinkFenced : public SinkBroken {
  using SinkBroken::SinkBroken;
};

// What is stored with the checkpoint cannot be used, and only a person can mend that.
class CheckpointUnusable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The text that says how far everything sent by now has come; called while a transaction is being closed.
using CheckpointSource = std::function<std::string()>;

// Each accepted record is reported exactly once, delivered, failed or given up, in any order; records with the same
// topic and key become durable in send() order. After a failure nothing more is sent: what is not on its way yet is
// given up, and the sink is of use for its reports only. Nothing here blocks. Not thread-safe: one thread calls
// everything.
class Sink {
 public:
  enum class SendResult { accepted, full, refused };

  virtual ~Sink() = default;

  // Takes a copy of the record, or says `full` and takes nothing; room comes as reports are collected. `refused`: takes
  // nothing either, refusal() says why this record can never be delivered as it is, and the sink can go on. Throws
  // SinkBroken.
  virtual SendResult send(const Record& record, Ticket ticket) = 0;
  virtual DeliveryFailure refusal() const { return {}; }

  // Appends the reports that have come in. Throws SinkBroken and CheckpointUnusable.
  virtual void collect(DeliveryReports& reports) = 0;

  // Readable when collect() has something to do; stays valid as long as the sink.
  virtual int event_fd() const = 0;

  // Asks for what the first record to each topic would otherwise wait for. A hint; may do nothing.
  virtual void expect_topics(const std::vector<std::string>& /*topics*/) {}

  // Nothing more comes for the moment: what is held back for company may go.
  virtual void flush() {}

  // Whether this sink keeps a checkpoint: it then reports the stored one before it accepts a record.
  virtual bool keeps_checkpoint() const { return false; }

  // Makes what the source says durable, after all that was sent before; reported as checkpoint_written. Only for a sink
  // that keeps a checkpoint, and not before the last one is written; false where it cannot begin yet.
  virtual bool write_checkpoint() { return false; }

  // How soon collect() should be called although event_fd() shows nothing.
  virtual std::chrono::milliseconds collect_within() const { return std::chrono::milliseconds::max(); }
};

}  // namespace outbox
