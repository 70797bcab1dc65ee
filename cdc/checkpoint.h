// The text of a checkpoint: how far a relay has come, and on which history. JSON, so that a person can read it.
#pragma once

#include <optional>
#include <string>

#include "cdc/resume.h"

namespace outbox {

struct Checkpoint {
  HistoryIdentity identity;
  Progress progress;

  bool operator==(const Checkpoint&) const = default;
};

//   {"version":1,"system_identifier":"7…","timeline":"1","flushed_lsn":"0/1A0",
//    "commit_lsn":"0/198","records":3,"complete":true,"xid":740,"commit_time_us":829…}
// `commit_lsn` and what follows are of the latest transaction of which anything is delivered, and missing before the
// first; `records` counts its inserts that are; the time is PostgreSQL's.
std::string encode(const Checkpoint& checkpoint);

// Nothing for what is no checkpoint of a version that is known.
std::optional<Checkpoint> decode_checkpoint(const std::string& text);

// What the records of a checkpoint topic are told apart by, and what a transactional.id is made of.
std::string checkpoint_key(const std::string& database, const std::string& slot);
std::string transactional_id(const std::string& system_identifier, const std::string& database,
                             const std::string& slot);

}  // namespace outbox
