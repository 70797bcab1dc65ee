// The broken promises of the stream, each thrown where it is found and caught in one place, the daemon.
#pragma once

#include <stdexcept>

namespace outbox {

// Bytes from the server that do not mean what the protocol says. Nothing of them is confirmed.
class ProtocolError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The stream does not hold what an earlier one of this process delivered: the server has another history.
class HistoryChanged : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An event that cannot become a record, or that the sink refuses for good: the relay halts, keeps the slot and
// tries again, since only a person can mend it.
class HaltError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A halt at an event whose route leads to no topic that Kafka takes.
class InvalidTopic : public HaltError {
  using HaltError::HaltError;
};

// A record was refused for good and goes to the dead-letter topic when it comes by again: the stream starts over at
// once.
class DeadLetterDue : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An insert into a relation that the catalog did not name when the session began, such as a partition attached
// since. Reading the catalog again may resolve it.
class UnknownRelation : public HaltError {
  using HaltError::HaltError;
};

}  // namespace outbox
