// Claims about what is read from PostgreSQL's answer about itself.
#include "cdc/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cdc/preflight.h"
#include "tests/config_test_support.h"
#include "tests/wire.h"

namespace outbox {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(SynchronousStandbys, AStarCountsEverybody) {
  for (const char* names : {"*", " * ", "FIRST 1 (*)", "ANY 2 (a, *)", "a,*", "1(*)", "\"*\""}) {
    EXPECT_TRUE(counts_as_synchronous(names, "outbox-relay")) << names;
  }
}

TEST(SynchronousStandbys, ANameCountsQuotedOrNotAndInAnyCase) {
  for (const char* names :
       {"\"outbox-relay\"", "outbox-relay", "FIRST 1 (a, \"Outbox-Relay\")", "ANY 1(\"outbox-relay\",b)"}) {
    EXPECT_TRUE(counts_as_synchronous(names, "outbox-relay")) << names;
  }
}

TEST(SynchronousStandbys, OtherNamesDoNotCount) {
  for (const char* names :
       {"", "a", "outbox", "FIRST 1 (a, b)", "\"outbox-relay 2\"", "my-outbox-relay", "\"a, outbox-relay\""}) {
    EXPECT_FALSE(counts_as_synchronous(names, "outbox-relay")) << names;
  }
}

TEST(Catalog, ReadsTheAnswerOfANewServer) {
  const auto catalog = parse_catalog(R"({
    "server_version": 180006, "server_version_text": "18.6", "wal_level": "logical", "user": "relay",
    "database": "shop", "may_replicate": true, "in_recovery": false, "wal_end": "1/2A0",
    "wal_sender_timeout_ms": 30000, "slots_used": 1, "slots_max": 10, "senders_used": 2, "senders_max": 11,
    "synchronous_standby_names": "", "physical_slots": 0, "idle_slot_timeout": "5min",
    "slot": {"plugin": "pgoutput", "slot_type": "logical", "database": "shop", "active": true, "active_pid": 4711,
             "restart_lsn": "1/100", "confirmed_flush_lsn": "1/200", "wal_status": "lost",
             "invalidation_reason": "wal_removed", "safe_wal_size": -5},
    "publication": {"pubinsert": true, "pubupdate": false, "pubdelete": false, "pubtruncate": true},
    "published_tables": ["public.outbox_events"],
    "oldest_transaction": {"pid": 5, "application_name": "batch", "state": "idle in transaction"},
    "tables": [{"exists": true, "published": true, "kind": "p", "persistence": "p", "columns": ["id", "payload"],
                "relations": [16384, 4294967295]},
               {"exists": false, "published": null, "kind": null, "persistence": null, "columns": null, "relations": [null]}]})");
  EXPECT_EQ(catalog.server_version, 180006);
  EXPECT_EQ(catalog.wal_end, lsn("1/2A0"));
  EXPECT_EQ(catalog.idle_slot_timeout, "5min");
  ASSERT_TRUE(catalog.slot);
  EXPECT_TRUE(catalog.slot->active);
  EXPECT_EQ(catalog.slot->active_pid, 4711);
  EXPECT_EQ(catalog.slot->confirmed_flush_lsn, lsn("1/200"));
  EXPECT_EQ(catalog.slot->safe_wal_bytes, -5);
  EXPECT_TRUE(catalog.slot->lost());
  EXPECT_TRUE(catalog.publication->truncates);
  EXPECT_FALSE(catalog.publication->updates);
  EXPECT_EQ(catalog.oldest_transaction->application_name, "batch");
  EXPECT_THAT(catalog.tables[0].columns, ElementsAre("id", "payload"));
  EXPECT_FALSE(catalog.tables[1].exists);
  EXPECT_THAT(catalog.relations(), UnorderedElementsAre(Pair(16384, 0), Pair(4294967295, 0)));
}

TEST(Catalog, WhatOlderServersDoNotHaveIsAbsentNotWrong) {
  const auto catalog = parse_catalog(R"({
    "server_version": 140024, "server_version_text": "14.24", "wal_level": "logical", "idle_slot_timeout": null,
    "slot": {"plugin": "pgoutput", "slot_type": "logical", "database": "shop", "active": false, "active_pid": null,
             "restart_lsn": "0/100", "confirmed_flush_lsn": "0/200", "wal_status": "reserved", "safe_wal_size": null},
    "publication": null, "published_tables": null, "oldest_transaction": null, "tables": []})");
  EXPECT_EQ(catalog.idle_slot_timeout, "");
  EXPECT_EQ(catalog.slot->invalidation_reason, "");
  EXPECT_FALSE(catalog.slot->lost());
  EXPECT_EQ(catalog.slot->active_pid, 0);
  EXPECT_EQ(catalog.slot->safe_wal_bytes, std::nullopt);
  EXPECT_FALSE(catalog.publication);
  EXPECT_FALSE(catalog.oldest_transaction);
  EXPECT_THAT(catalog.published_tables, testing::IsEmpty());
}

TEST(Catalog, AMissingSlotIsNoSlot) {
  EXPECT_FALSE(parse_catalog(R"({"slot": null, "publication": null, "oldest_transaction": null, "tables": []})").slot);
}

Catalog idle_catalog() {
  return parse_catalog(
      R"({"in_recovery": false, "wal_end": "0/9000000", "publication": null, "oldest_transaction": null,
    "slot": {"restart_lsn": "0/1000000", "confirmed_flush_lsn": "0/9000000"}, "tables": []})");
}

TEST(Catalog, IdlenessKeepsWalWhereAllIsConfirmedAndNobodyHoldsTheRestartPosition) {
  EXPECT_TRUE(idle_catalog().wal_is_kept_by_idleness());
  auto catalog = idle_catalog();
  catalog.wal_end = lsn("0/9000100");
  EXPECT_FALSE(catalog.wal_is_kept_by_idleness()) << "somebody writes";
  catalog = idle_catalog();
  catalog.slot->restart_lsn = lsn("0/8FFFF00");
  EXPECT_FALSE(catalog.wal_is_kept_by_idleness()) << "too little to write for";
  catalog = idle_catalog();
  catalog.oldest_transaction = OldestTransaction{.pid = 1, .application_name = "", .state = "active"};
  EXPECT_FALSE(catalog.wal_is_kept_by_idleness()) << "writing would not help";
  catalog = idle_catalog();
  catalog.in_recovery = true;
  EXPECT_FALSE(catalog.wal_is_kept_by_idleness()) << "a standby cannot write";
  catalog = idle_catalog();
  catalog.slot.reset();
  EXPECT_FALSE(catalog.wal_is_kept_by_idleness());
}

TEST(Catalog, AWalsenderThatWaitsToSayThatItEndsIsToldFromOneThatStreams) {
  for (const auto& [event, ends] :
       std::map<std::string, bool>{{"\"ClientWrite\"", true}, {"\"WalSenderWriteData\"", false}, {"null", false}}) {
    const auto catalog = parse_catalog(R"({"slot": {"active": true}, "publication": null, "oldest_transaction": null,
      "tables": [], "walsender_wait_event": )" +
                                       event + "}");
    EXPECT_EQ(catalog.slot->walsender_waits_to_end(), ends) << event;
  }
}

TEST(Catalog, RefusesTextThatIsNoAnswer) {
  EXPECT_THROW(parse_catalog(""), std::exception);
  EXPECT_THROW(parse_catalog("{}"), std::exception);
  EXPECT_THROW(parse_catalog(R"({"tables": []})"), std::exception);
  EXPECT_THROW(parse_catalog("not json"), std::exception);
}

TEST(Catalog, QuotesEveryNameInItsQuery) {
  auto config = parse(kBase + "outbox: [{table: {schema: \"o'dd\", name: \"a''b\"}}]\n");
  config.source.slot.name = "s";
  config.source.publication.name = "p'q";
  const auto query = catalog_query(config, 150000, quote_literal);
  EXPECT_THAT(query, HasSubstr("slot_name = 's'"));
  EXPECT_THAT(query, HasSubstr("pubname = 'p''q'"));
  EXPECT_THAT(query, HasSubstr("(0, 'o''dd'::name, 'a''''b'::name)"));
}

}  // namespace
}  // namespace outbox
