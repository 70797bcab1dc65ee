"""What a catalog or a role may have in it that is unusual (C8, C10, C15, D2, D9, D12), and lags over all that (G1)."""

import re
import time

import pytest

from support.relay import parse_metrics
from support.shaped_outbox import COLUMNS, ShapedOutbox


@pytest.fixture
def box(postgres):
    return ShapedOutbox(postgres)


def test_a_table_that_is_dropped_and_made_again_makes_the_relay_unready_until_it_is_published(box):
    """Case D2, as the migrations of a framework do it: the publication is left empty, and PostgreSQL says nothing."""
    with box.relay() as relay:
        relay.wait_ready()
        first = box.insert()
        box.wait_ids(relay, [first])
        box.sql(f"DROP TABLE outbox_events; CREATE TABLE outbox_events ({COLUMNS})")
        relay.wait_for(lambda: relay.ready()[0] == 503, 30, "the relay is unready")
        remedy = f'ALTER PUBLICATION "{box.name}" ADD TABLE "public"."outbox_events";'
        assert remedy in relay.ready()[1] and remedy in relay.stderr()
        assert relay.metric("outbox_relay_publication_ok") == 0
        assert relay.live()[0] == 200
        box.sql(remedy)
        second = box.insert()
        box.wait_ids(relay, [first, second], deadline_s=30)
        relay.wait_ready()
        assert relay.metric("outbox_relay_publication_ok") == 1
        assert relay.terminate() == 0


def test_a_temporary_outbox_is_named_by_the_check(postgres):
    """Case D9: it lives in the schema of the session that has it open."""
    box = ShapedOutbox(postgres, ddl=f"CREATE TABLE kept ({COLUMNS})", initialise=False)
    with box.connect() as session, session.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE outbox_events ({COLUMNS})")
        cursor.execute("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()")
        box.config["outbox"][0]["table"]["schema"], = cursor.fetchone()
        session.commit()
        code, out, err = box.command("check", "--connect")
    assert code != 0
    assert "is temporary: its rows are not in the write-ahead log" in out + err


def test_a_hundred_thousand_types_do_not_keep_the_relay_from_starting(postgres):
    """Case D12."""
    box = ShapedOutbox(postgres)
    box.sql("""DO $$ BEGIN FOR n IN 1 .. 100000 LOOP
                 EXECUTE format('CREATE DOMAIN type_%s AS int', n);
                 IF n % 2000 = 0 THEN COMMIT; END IF;  -- Each type takes a lock.
               END LOOP; END $$""")
    assert box.value("SELECT count(*) FROM pg_type") > 100_000
    event = box.insert()
    started = time.monotonic()
    with box.relay() as relay:
        relay.wait_streaming()
        streaming = time.monotonic() - started
        box.wait_ids(relay, [event])
        print(f"streaming after {streaming:.2f} s, the first event after {time.monotonic() - started:.2f} s")
        assert relay.terminate() == 0


def test_a_role_that_may_not_log_in_ends_the_relay_after_a_few_tries(box):
    """Case C10; bounded, so that no account behind PostgreSQL is locked."""
    box.pg.sql(f"CREATE ROLE nologin_{box.name} REPLICATION NOLOGIN")
    box.config["source"]["user"] = f"nologin_{box.name}"
    with box.relay() as relay:
        assert relay.wait_exit() == 77
        assert 1 < len(re.findall("is not permitted to log in", relay.stderr())) <= 10


def test_the_publication_that_init_makes_leaves_updates_without_a_replica_identity_alone(postgres):
    """Case C8: one that also publishes updates breaks the application's own."""
    box = ShapedOutbox(postgres, ddl="CREATE TABLE outbox_events (id uuid DEFAULT gen_random_uuid(), aggregate_type text"
                       " DEFAULT 'order', aggregate_id text DEFAULT '1', event_type text DEFAULT 'Placed',"
                       " payload jsonb DEFAULT '{}')")
    with box.relay() as relay:
        first = box.insert()
        box.sql("UPDATE outbox_events SET payload = '[]'")
        box.sql("DELETE FROM outbox_events")
        box.wait_ids(relay, [first, box.insert()])


def test_messages_that_carry_no_event_are_known(postgres):
    """Case C15: origin, type, truncate and logical messages of a real server, in one transaction with an event."""
    box = ShapedOutbox(postgres, ddl="CREATE TYPE kind AS ENUM ('order'); CREATE TABLE outbox_events"
                       " (id uuid DEFAULT gen_random_uuid(), aggregate_type kind DEFAULT 'order', aggregate_id text"
                       " DEFAULT '1', event_type text DEFAULT 'Placed', payload jsonb DEFAULT '{}')", initialise=False)
    box.sql(f"CREATE PUBLICATION {box.name} FOR TABLE outbox_events")
    box.init()
    box.sql("SELECT pg_replication_origin_create(%s)", [box.name])
    with box.relay() as relay:
        relay.wait_streaming()
        with box.connect() as session, session.cursor() as cursor:
            cursor.execute("SELECT pg_replication_origin_session_setup(%s)", [box.name])
            cursor.execute("SELECT pg_replication_origin_xact_setup('0/1', now())")
            cursor.execute("SELECT pg_logical_emit_message(true, 'prefix', 'transactional')")
            cursor.execute("SELECT pg_logical_emit_message(false, 'prefix', 'at once')")
            cursor.execute("TRUNCATE outbox_events")
            event = box.insert(cursor)
            session.commit()
            cursor.execute("SELECT pg_replication_origin_session_reset()")
        box.wait_ids(relay, [event])
        relay.wait_for(lambda: relay.metric("outbox_relay_source_messages_total", type="other") >= 3, 5,
                       "origin, type and truncate have been counted")
        assert relay.metric("outbox_relay_source_reconnects_total") == 0


def test_lags_are_never_negative_over_reconnects_a_restart_and_a_new_slot(box):
    """Case G1."""
    seen = []

    def sample():
        metrics = parse_metrics(relay.get("/metrics")[1])
        seen.append(metrics)
        negative = {name: value for name, value in metrics.items() if value < 0}
        assert not negative, negative

    def until(predicate, what):
        relay.wait_for(lambda: sample() or predicate(), 30, what)

    with box.relay() as relay:
        relay.wait_streaming()
        for _ in range(3):
            box.insert()
            old = box.pg.walsender_pid(box.name)
            box.sql("SELECT pg_terminate_backend(%s)", [old])
            until(lambda: box.pg.walsender_pid(box.name) not in (None, old), "a new walsender")
        box.wait_confirmed(relay)
        until(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == 3, "all are counted")
        for before, after in zip(seen, seen[1:]):
            for name, value in after.items():
                if name.split("{")[0].endswith("_total"):
                    assert value >= before.get(name, 0), name
        assert relay.terminate() == 0
        box.sql("SELECT pg_drop_replication_slot(%s)", [box.name])
        box.init()
        relay.start().wait_streaming()
        box.insert()
        until(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == 1, "the new slot's event")
        box.wait_confirmed(relay)
        until(lambda: relay.metric("outbox_relay_source_lag_bytes") is not None, "the lag is there")
