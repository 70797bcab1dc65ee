"""Tables that change while they are read: partitions, columns, names, publications (cases D1 to D12)."""

import pytest

from support.shaped_outbox import COLUMNS, ShapedOutbox
from support.postgres import Postgres

PARTITIONED = """
CREATE TABLE outbox_events (id uuid DEFAULT gen_random_uuid(), aggregate_type text DEFAULT 'order',
  aggregate_id text DEFAULT '1', event_type text DEFAULT 'Placed', payload jsonb DEFAULT '{}',
  month int DEFAULT 1) PARTITION BY LIST (month);
CREATE TABLE leaf_one (payload jsonb DEFAULT '{}', gone int, month int DEFAULT 1, event_type text DEFAULT 'Placed',
  aggregate_id text DEFAULT '1', id uuid DEFAULT gen_random_uuid(), aggregate_type text DEFAULT 'order');
ALTER TABLE leaf_one DROP COLUMN gone;
ALTER TABLE outbox_events ATTACH PARTITION leaf_one FOR VALUES IN (1);
CREATE TABLE outbox_events_2 PARTITION OF outbox_events FOR VALUES IN (2)"""


@pytest.fixture(scope="module", params=(14, 18), ids=lambda version: f"pg{version}")
def oldest_and_newest(request):
    with Postgres(request.param) as server:
        yield server


@pytest.fixture(scope="module")
def pg():
    with Postgres(15, settings={"max_prepared_transactions": 2}) as server:
        yield server


@pytest.fixture
def box(pg):
    return ShapedOutbox(pg)


@pytest.mark.parametrize("via_root", ["true", "false"])
def test_partitions_are_read_with_their_own_column_order_also_those_attached_later(oldest_and_newest, via_root):
    box = ShapedOutbox(oldest_and_newest, ddl=PARTITIONED, initialise=False)
    box.sql(f"CREATE PUBLICATION {box.name} FOR TABLE outbox_events"
            f" WITH (publish = 'insert', publish_via_partition_root = {via_root})")
    box.init()
    with box.relay() as relay:
        relay.wait_streaming()
        ids = [box.insert(month=1, payload='{"n": 1}'), box.insert(month=2, payload='{"n": 2}')]
        ids.append(box.insert(table="leaf_one", payload='{"n": 3}'))
        box.wait_ids(relay, ids)
        box.sql("CREATE TABLE later (LIKE outbox_events INCLUDING DEFAULTS)")
        box.sql("ALTER TABLE outbox_events ATTACH PARTITION later FOR VALUES IN (3)")
        ids.append(box.insert(month=3, payload='{"n": 4}'))
        ids.append(box.insert(month=1, payload='{"n": 5}'))
        box.wait_ids(relay, ids)
        assert [line["value"] for line in relay.stdout_lines()] == ['{"n": %d}' % n for n in range(1, 6)]
        assert [line["key"] for line in relay.stdout_lines()] == ["1"] * 5
        assert relay.metric("outbox_relay_halts_total") == 0
        assert relay.terminate() == 0


CHANGES = [
    "ADD COLUMN extra text DEFAULT 'e'", "ALTER COLUMN aggregate_id DROP DEFAULT,"
    " ALTER COLUMN aggregate_id TYPE bigint USING aggregate_id::bigint, ALTER COLUMN aggregate_id SET DEFAULT 1",
    "DROP COLUMN extra", "ADD COLUMN trace uuid", "RENAME COLUMN trace TO trace_id",
    "ALTER COLUMN payload TYPE json USING payload::json", "ALTER COLUMN payload DROP DEFAULT, ALTER COLUMN payload"
    " TYPE text, ALTER COLUMN payload SET DEFAULT '{}'", "ALTER COLUMN event_type TYPE varchar(40)",
    "DROP CONSTRAINT outbox_events_pkey", "REPLICA IDENTITY FULL", "RENAME TO outbox_renamed",
]


def test_changes_that_keep_the_needed_columns_are_followed_while_streaming_and_while_stopped(box):
    ids = [box.insert()]

    def change_and_insert(changes):
        for change in changes:
            box.sql(f"ALTER TABLE {box.table['name']} {change}")
            box.table["name"] = change.removeprefix("RENAME TO ") if "RENAME TO" in change else box.table["name"]
            ids.append(box.insert())

    with box.relay() as relay:
        relay.wait_streaming()
        change_and_insert(CHANGES[:5])
        box.wait_ids(relay, ids)
        assert relay.terminate() == 0
        change_and_insert(CHANGES[5:-1])
        relay.start()
        relay.wait_streaming()
        change_and_insert(CHANGES[-1:])
        box.wait_ids(relay, ids)
        assert [line["key"] for line in relay.stdout_lines()] == ["1"] * len(ids)
        assert relay.terminate() == 0


@pytest.mark.parametrize("column,needed_for", [("payload", "the value"), ("aggregate_id", "the key"),
                                               ("aggregate_type", "the topic"), ("event_type", 'header "event_type"')])
def test_a_missing_column_halts_by_name_before_confirming_and_flows_once_the_config_names_another(
        box, column, needed_for):
    with box.relay() as relay:
        relay.wait_streaming()
        first = box.insert()
        box.wait_ids(relay, [first])
        box.sql(f"ALTER TABLE outbox_events RENAME COLUMN {column} TO renamed")
        before = box.wal_end()
        second = box.insert()
        relay.wait_state("halted")
        reason = relay.ready()[1]
        assert f'no column "{column}", which {needed_for} needs' in reason and "renamed" in reason
        assert relay.live()[0] == 200
        assert box.confirmed() <= before
        assert not box.pg.slot(box.name)["active"]
        assert relay.terminate() == 0
    box.config["outbox"][0]["columns"] = {column: "renamed"}
    with box.relay() as relay:
        box.wait_ids(relay, [second])


def test_a_column_list_without_a_needed_column_halts_and_names_it():
    with Postgres(18) as pg:
        box = ShapedOutbox(pg, initialise=False)
        box.sql(f"CREATE PUBLICATION {box.name} FOR TABLE outbox_events (id, aggregate_id, aggregate_type)"
                " WITH (publish = 'insert')")
        box.init()
        box.insert()
        with box.relay() as relay:
            relay.wait_state("halted")
            reason = relay.ready()[1]
            assert "column list" in reason and 'no column "payload"' in reason
            assert "the row has id, aggregate_type, aggregate_id" in reason


def test_a_publication_of_everything_gives_one_record_per_insert_and_a_warning(pg):
    box = ShapedOutbox(pg, initialise=False)
    box.sql(f"CREATE PUBLICATION {box.name} FOR TABLE outbox_events")
    box.sql("ALTER TABLE outbox_events REPLICA IDENTITY FULL")
    box.init()
    with box.relay() as relay:
        ids = [box.insert(), box.insert()]
        box.sql("UPDATE outbox_events SET event_type = 'changed'")
        box.sql("UPDATE outbox_events SET id = gen_random_uuid()")
        box.sql("INSERT INTO outbox_events (id) VALUES (%s) ON CONFLICT (id) DO UPDATE SET event_type = 'upserted'",
                [box.value("SELECT id FROM outbox_events LIMIT 1")])
        box.sql("DELETE FROM outbox_events")
        box.sql("TRUNCATE outbox_events")
        ids.append(box.insert())
        box.wait_ids(relay, ids)
        relay.wait_for(lambda: relay.metric("outbox_relay_source_messages_total", type="other") > 0, 5)
        assert relay.stderr().count("also publishes updates, deletes or truncates") == 1
        assert f'ALTER PUBLICATION "{box.name}" SET (publish = \'insert\')' in relay.stderr()
        assert relay.terminate() == 0


def test_only_what_is_committed_appears_and_a_deleted_row_does_too(box):
    with box.relay() as relay, box.connect() as connection, connection.cursor() as cursor:
        relay.wait_streaming()
        box.insert(cursor)
        connection.rollback()
        first = box.insert(cursor)
        cursor.execute("SAVEPOINT s")
        box.insert(cursor)
        cursor.execute("ROLLBACK TO s")
        cursor.execute("SAVEPOINT t")
        second = box.insert(cursor)
        cursor.execute("RELEASE t")
        connection.commit()
        third = box.insert(cursor)
        cursor.execute("DELETE FROM outbox_events")
        connection.commit()
        box.wait_ids(relay, [first, second, third])


def test_a_prepared_transaction_appears_whole_at_its_commit_alone(box):
    with box.relay() as relay, box.connect() as connection, connection.cursor() as cursor:
        relay.wait_streaming()
        prepared = [box.insert(cursor), box.insert(cursor)]
        cursor.execute("PREPARE TRANSACTION 'two-phase'")
        after = box.insert()
        box.wait_ids(relay, [after])
        box.sql("COMMIT PREPARED 'two-phase'")
        box.wait_ids(relay, [after, *prepared])


def test_domains_over_jsonb_and_enums_are_sent_as_text(pg):
    box = ShapedOutbox(pg, ddl="""
        CREATE DOMAIN event_body AS jsonb CHECK (jsonb_typeof(VALUE) = 'object');
        CREATE TYPE kind AS ENUM ('order', 'invoice ü');
        CREATE DOMAIN key_text AS varchar(20);
        CREATE TABLE outbox_events (id uuid DEFAULT gen_random_uuid(), aggregate_type kind DEFAULT 'order',
          aggregate_id key_text DEFAULT 'k', event_type kind DEFAULT 'invoice ü', payload event_body DEFAULT '{"a": 1}')""")
    with box.relay() as relay:
        box.wait_ids(relay, [box.insert()])
        [line] = relay.stdout_lines()
    assert (line["topic"], line["key"], line["value"]) == (f"{box.name}.order", "k", '{"a": 1}')
    assert line["headers"]["event_type"] == "invoice ü"


@pytest.mark.parametrize("persistence,remedy", [("UNLOGGED", "SET LOGGED")])
def test_an_unlogged_outbox_is_named_by_the_check(pg, persistence, remedy):
    box = ShapedOutbox(pg, ddl=f"CREATE {persistence} TABLE outbox_events ({COLUMNS})", initialise=False)
    code, out, _ = box.command("check", "--connect")
    assert code != 0
    assert f'error    table "public"."outbox_events" is {persistence}' in out and remedy in out


def test_a_published_table_without_an_entry_halts_at_its_first_insert_with_the_remedy(box):
    box.sql("CREATE TABLE other (id int)")
    box.sql(f"ALTER PUBLICATION {box.name} ADD TABLE other")
    with box.relay() as relay:
        first = box.insert()
        box.wait_ids(relay, [first])
        before = box.wal_end()
        box.sql("INSERT INTO other VALUES (1)")
        relay.wait_state("halted")
        reason = relay.ready()[1]
        assert "public.other, which no outbox entry names" in reason and "DROP TABLE public.other" in reason
        assert box.confirmed() <= before
