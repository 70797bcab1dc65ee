// Claims about what each failure of PostgreSQL means, and about what readiness says of a state.
#include "cdc/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cdc/exit_codes.h"
#include "cdc/status_board.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

Failure failure_of(const std::string& sqlstate) { return classify(PgError("what the server says", sqlstate), "relay"); }

TEST(Failure, ALostConnectionIsTriedAgain) {
  EXPECT_EQ(failure_of("").kind, FailureKind::transient);
  EXPECT_STREQ(failure_of("").metric_reason, "connection_lost");
}

TEST(Failure, ShutdownsAndTerminationsAreTriedAgain) {
  for (const char* code : {"57P01", "57P02", "57P03", "57P05", "53300", "08006", "XX000", "55006", "40001"}) {
    EXPECT_EQ(failure_of(code).kind, FailureKind::transient) << code;
  }
  EXPECT_STREQ(failure_of("57P01").metric_reason, "terminated");
  EXPECT_STREQ(failure_of("57P03").metric_reason, "server_shutdown");
}

TEST(Failure, ARefusedLoginIsTriedAFewTimesForItsPasswordMayBeRotated) {
  for (const char* code : {"28000", "28P01"}) {
    EXPECT_EQ(failure_of(code).kind, FailureKind::refused_login) << code;
    EXPECT_THAT(failure_of(code).advice, AllOf(HasSubstr("password_file"), HasSubstr("pg_hba.conf")));
  }
}

TEST(Failure, WhatOnlyAPersonCanMendSaysWhatToDo) {
  EXPECT_EQ(failure_of("42501").kind, FailureKind::permission);
  EXPECT_THAT(failure_of("42501").advice, HasSubstr("REPLICATION"));
  EXPECT_EQ(failure_of("3D000").kind, FailureKind::config);
  EXPECT_THAT(failure_of("3D000").advice, HasSubstr("source.database"));
  EXPECT_EQ(failure_of("42704").kind, FailureKind::missing);
  EXPECT_EQ(failure_of("08P01").kind, FailureKind::config);
  EXPECT_THAT(failure_of("08P01").advice, HasSubstr("pooler"));
}

TEST(ExitCodes, AreTheOnesOfTheTable) {
  const std::vector<int> codes{to_int(ExitCode::ok),
                               to_int(ExitCode::usage),
                               to_int(ExitCode::slot_lost),
                               to_int(ExitCode::missing),
                               to_int(ExitCode::unavailable),
                               to_int(ExitCode::internal),
                               to_int(ExitCode::drain_incomplete),
                               to_int(ExitCode::protocol),
                               to_int(ExitCode::permission),
                               to_int(ExitCode::config)};
  EXPECT_EQ(codes, (std::vector<int>{0, 64, 65, 66, 69, 70, 75, 76, 77, 78}));
}

Status status_of(State state, double oldest_unacked_seconds = 0, std::string reason = {}) {
  Status status;
  status.state = state;
  status.reason = std::move(reason);
  status.oldest_unacked_seconds = oldest_unacked_seconds;
  return status;
}

TEST(Readiness, StreamingBlockedAndStandbyAreReady) {
  for (const auto state : {State::streaming, State::blocked, State::standby}) {
    EXPECT_EQ(unready_reason(status_of(state, 29), milliseconds(30000)), "") << to_string(state);
  }
}

TEST(Readiness, EveryOtherStateIsUnreadyAndSaysWhy) {
  for (const auto state : {State::starting, State::halted, State::stopping}) {
    EXPECT_EQ(unready_reason(status_of(state), milliseconds(30000)), to_string(state));
    EXPECT_EQ(unready_reason(status_of(state, 0, "because"), milliseconds(30000)),
              std::string(to_string(state)) + ": because");
  }
}

TEST(Readiness, ARecordThatWaitsTooLongIsUnready) {
  EXPECT_THAT(unready_reason(status_of(State::streaming, 31), milliseconds(30000)), HasSubstr("31 s"));
  EXPECT_THAT(unready_reason(status_of(State::blocked, 31), milliseconds(30000)), HasSubstr("31 s"));
}

TEST(StatusBoard, GivesBackWhatWasPublishedLast) {
  StatusBoard board;
  board.publish(status_of(State::halted, 0, "topic refused"));
  EXPECT_EQ(board.read().state, State::halted);
  EXPECT_EQ(board.read().reason, "topic refused");
}

TEST(StatusBoard, KnowsHowLongTheLoopHasNotTurned) {
  StatusBoard board;
  const TimePoint turn{std::chrono::hours(1)};
  board.turned(turn);
  EXPECT_EQ(board.since_turn(turn + std::chrono::seconds(7)), std::chrono::seconds(7));
}

TEST(StatusBoard, EveryStateHasItsOwnName) {
  std::set<std::string> names;
  for (const auto state : all_states) names.insert(to_string(state));
  EXPECT_EQ(names.size(), all_states.size());
}

}  // namespace
}  // namespace outbox
