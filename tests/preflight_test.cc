// Claims about what stands in the way of streaming: how grave it is, the exit code, and what to type.
#include "cdc/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cdc/errors.h"
#include "tests/config_test_support.h"
#include "tests/wire.h"

namespace outbox {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Severity = Finding::Severity;

class PreflightTest : public testing::Test {
 protected:
  static Catalog sound_catalog() {
    Catalog catalog;
    catalog.server_version = 150000;
    catalog.server_version_text = "15.1";
    catalog.wal_level = "logical";
    catalog.user = "relay";
    catalog.database = "shop";
    catalog.may_replicate = true;
    catalog.slots_used = 1;
    catalog.slots_max = 10;
    catalog.senders_max = 10;
    catalog.slot = CatalogSlot{.plugin = "pgoutput",
                               .type = "logical",
                               .database = "shop",
                               .restart_lsn = lsn("0/100"),
                               .confirmed_flush_lsn = lsn("0/200"),
                               .wal_status = "reserved",
                               .invalidation_reason = "",
                               .walsender_wait_event = "",
                               .safe_wal_bytes = {}};
    catalog.publication = CatalogPublication{.inserts = true, .updates = false, .deletes = false, .truncates = false};
    catalog.tables = {{.exists = true,
                       .published = true,
                       .kind = "r",
                       .persistence = "p",
                       .columns = {"id", "aggregate_type", "aggregate_id", "event_type", "payload"},
                       .relations = {16384}}};
    return catalog;
  }

  // The one finding that is not ok.
  Finding finding() {
    std::vector<Finding> bad;
    for (auto& each : examine(catalog, config)) {
      if (each.severity != Severity::ok) bad.push_back(std::move(each));
    }
    EXPECT_EQ(bad.size(), 1u);
    return bad.empty() ? Finding{} : bad.front();
  }

  void expect(Severity severity, ExitCode code, const std::string& text, const std::string& remedy) {
    const auto found = finding();
    EXPECT_EQ(found.severity, severity);
    EXPECT_EQ(found.code, code);
    EXPECT_THAT(found.text, HasSubstr(text));
    EXPECT_THAT(found.remedy, HasSubstr(remedy));
  }

  Config config = parse(kBase);
  Catalog catalog = sound_catalog();
};

TEST_F(PreflightTest, ASoundServerIsReady) {
  const auto findings = examine(catalog, config);
  for (const auto& each : findings) EXPECT_EQ(each.severity, Severity::ok) << each.text;
  EXPECT_GE(findings.size(), 5u);
  EXPECT_NO_THROW(require_ready(findings));
}

TEST_F(PreflightTest, AServerBefore14IsRefused) {
  catalog.server_version = 130009;
  expect(Severity::fatal, ExitCode::config, "older than 14", "Upgrade");
}

TEST_F(PreflightTest, AnotherWalLevelIsRefused) {
  catalog.wal_level = "replica";
  expect(Severity::fatal, ExitCode::config, "wal_level is replica", "ALTER SYSTEM SET wal_level = logical;");
}

TEST_F(PreflightTest, CountingAsASynchronousStandbyIsRefused) {
  catalog.synchronous_standby_names = "*";
  expect(Severity::fatal, ExitCode::config, "every commit would wait for Kafka", "source.libpq.application_name");
}

TEST_F(PreflightTest, NoFreeWalsenderIsAWarning) {
  catalog.senders_used = catalog.senders_max;
  expect(Severity::warning, ExitCode::ok, "max_wal_senders", "ALTER SYSTEM SET max_wal_senders");
}

TEST_F(PreflightTest, ARoleThatMayNotReplicateGetsTheStatement) {
  catalog.may_replicate = false;
  catalog.user = "odd\"name";
  expect(Severity::fatal, ExitCode::permission, "may not replicate", "ALTER ROLE \"odd\"\"name\" REPLICATION;");
}

TEST_F(PreflightTest, AMissingPublicationGetsTheStatement) {
  catalog.publication.reset();
  expect(Severity::fatal, ExitCode::missing, "publication \"outbox\" does not exist in database shop",
         "CREATE PUBLICATION \"outbox\" FOR TABLE \"public\".\"outbox_events\" WITH (publish = 'insert', "
         "publish_via_partition_root = true);");
}

TEST_F(PreflightTest, APublicationWithoutInsertsIsRefused) {
  catalog.publication->inserts = false;
  expect(Severity::fatal, ExitCode::missing, "publishes no inserts",
         "ALTER PUBLICATION \"outbox\" SET (publish = 'insert');");
}

TEST_F(PreflightTest, APublicationOfMoreThanInsertsIsAWarning) {
  catalog.publication->updates = true;
  expect(Severity::warning, ExitCode::ok, "also publishes", "SET (publish = 'insert');");
}

TEST_F(PreflightTest, AMissingTableHalts) {
  catalog.tables[0] = {};
  catalog.published_tables = {"public.outbox_events_old"};
  expect(Severity::halt, ExitCode::config, "does not exist; the publication publishes public.outbox_events_old",
         "outbox[].table");
}

TEST_F(PreflightTest, ATableOutsideThePublicationHalts) {
  catalog.tables[0].published = false;
  expect(Severity::halt, ExitCode::config, "its events are not sent",
         "ALTER PUBLICATION \"outbox\" ADD TABLE \"public\".\"outbox_events\";");
}

TEST_F(PreflightTest, AnUnloggedTableHalts) {
  catalog.tables[0].persistence = "u";
  expect(Severity::halt, ExitCode::config, "UNLOGGED", "ALTER TABLE \"public\".\"outbox_events\" SET LOGGED;");
}

TEST_F(PreflightTest, AMissingColumnIsAWarningThatNamesIt) {
  catalog.tables[0].columns = {"id", "aggregate_type", "aggregate_id", "event_type", "body"};
  const auto found = finding();
  EXPECT_EQ(found.severity, Severity::warning);
  EXPECT_THAT(found.text, AllOf(HasSubstr("no column \"payload\""), HasSubstr("event_type, body")));
  EXPECT_THAT(found.remedy, HasSubstr("outbox[].columns"));
}

TEST_F(PreflightTest, AMissingSlotSaysWhatANewOneWouldPassOver) {
  catalog.slot.reset();
  expect(Severity::fatal, ExitCode::missing, "replication slot \"outbox\" does not exist",
         "outbox-relay init --config f.yaml");
  EXPECT_THAT(finding().remedy, HasSubstr("a new slot starts after them"));
}

TEST_F(PreflightTest, AMissingSlotAndNoneFreeSaysBoth) {
  catalog.slot.reset();
  catalog.slots_used = catalog.slots_max;
  EXPECT_THAT(finding().text, HasSubstr("all 10 max_replication_slots are in use"));
}

TEST_F(PreflightTest, ASlotOfAnotherKindIsRefused) {
  catalog.slot->plugin = "test_decoding";
  expect(Severity::fatal, ExitCode::config, "is not ours", "source.slot.name");
  catalog.slot->plugin = "pgoutput";
  catalog.slot->database = "other";
  expect(Severity::fatal, ExitCode::config, "database \"other\"", "source.database");
}

TEST_F(PreflightTest, ALostSlotHasItsOwnExitCodeAndSaysWhatIsGone) {
  catalog.slot->wal_status = "lost";
  expect(Severity::fatal, ExitCode::slot_lost, "what was committed after 0/200", "max_slot_wal_keep_size");
  catalog.slot->wal_status = "reserved";
  catalog.slot->invalidation_reason = "idle_timeout";
  expect(Severity::fatal, ExitCode::slot_lost, "is lost (idle_timeout)", "outbox-relay slot drop");
}

TEST_F(PreflightTest, ASlotAboutToBeLostIsAWarning) {
  catalog.slot->wal_status = "unreserved";
  expect(Severity::warning, ExitCode::ok, "about to be lost", "SELECT pg_reload_conf();");
}

TEST_F(PreflightTest, AnIdleTimeoutForSlotsIsAWarning) {
  catalog.idle_slot_timeout = "5min";
  expect(Severity::warning, ExitCode::ok, "idle_replication_slot_timeout is 5min", "= 0;");
  catalog.idle_slot_timeout = "0";
  EXPECT_NO_THROW(require_ready(examine(catalog, config)));
}

TEST_F(PreflightTest, WhatIsFatalEndsTheProcessEvenBesideAHalt) {
  catalog.tables[0].published = false;
  catalog.may_replicate = false;
  try {
    require_ready(examine(catalog, config));
    FAIL();
  } catch (const FatalError& error) {
    EXPECT_EQ(error.code(), ExitCode::permission);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("may not replicate"), HasSubstr("ALTER ROLE")));
  }
}

TEST_F(PreflightTest, AHaltAloneHalts) {
  catalog.tables[0].published = false;
  EXPECT_THROW(require_ready(examine(catalog, config)), HaltError);
}

TEST_F(PreflightTest, WarningsStandInNobodysWay) {
  catalog.publication->deletes = true;
  EXPECT_NO_THROW(require_ready(examine(catalog, config)));
}

TEST_F(PreflightTest, NamesAreQuotedForTheServer) {
  EXPECT_EQ(quote_identifier("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(quote_literal("a'b"), "'a''b'");
  EXPECT_EQ(quoted({.schema = "s", .name = "T"}), "\"s\".\"T\"");
}

}  // namespace
}  // namespace outbox
