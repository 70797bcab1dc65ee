"""Tables unlike the standard one, and rows that cannot become a record (cases D12, E3, E4, E13)."""

import pytest

from support.shaped_outbox import ShapedOutbox
from support.wait import eventually

OTHER_NAMES = {"id": "event_no", "aggregate_type": "kind", "aggregate_id": "order_no", "event_type": "what",
               "payload": "body"}


def test_a_bigint_key_other_column_names_and_extra_columns_are_mapped(postgres):
    box = ShapedOutbox(postgres, table={"schema": "app", "name": "events"}, ddl="""
        CREATE SCHEMA app;
        CREATE TABLE app.events (tenant text, body json, order_no bigint NOT NULL, big numeric,
          event_no bigint GENERATED ALWAYS AS IDENTITY, what text, kind text NOT NULL, shard int)""", initialise=False)
    box.config["outbox"][0].update(columns=OTHER_NAMES, route={
        "topic": "${tenant}.${aggregate_type}", "key": "${tenant}/${aggregate_id}", "partition": "${shard}",
        "headers": {"id": "${id}", "what": "${event_type}", "big": "${big}"}})
    box.init()
    with box.relay() as relay:
        box.sql("INSERT INTO app.events (tenant, body, order_no, big, what, kind, shard)"
                " VALUES ('acme', '{\"a\":1}', 9007199254740993, 1e30, 'Made', 'order', 3)")
        box.wait_ids(relay, ["1"])
        [line] = relay.stdout_lines()
    assert line.pop("timestamp_ms") > 1.6e12
    assert line == {"topic": "acme.order", "partition": 3, "key": "acme/9007199254740993", "value": '{"a":1}',
                    "headers": {"id": "1", "what": "Made", "big": "1" + "0" * 30}}


QUOTED = [('Schema "x"', 'Ereignis tabelle'), ("größe", 'naïve "outbox"'), ("select", "ORDER"), ("it's", "back\\slash")]


@pytest.mark.parametrize("schema,name", QUOTED)
def test_names_that_need_quotes_work_in_every_command(postgres, schema, name):
    def quoted(text):
        return '"' + text.replace('"', '""') + '"'

    table = f"{quoted(schema)}.{quoted(name)}"
    box = ShapedOutbox(postgres, table={"schema": schema, "name": name}, initialise=False, ddl=f"""
        CREATE SCHEMA {quoted(schema)};
        CREATE TABLE {table} ("Id" uuid DEFAULT gen_random_uuid(), "an art" text DEFAULT 'order',
        "schlüssel" text DEFAULT 'k', "SELECT" text DEFAULT 't', "pay""load" jsonb DEFAULT '{{}}', id text)""")
    box.config["source"]["publication"]["name"] = f'Pub "{name}\' {schema}'[:60]
    box.config["outbox"][0]["columns"] = {"id": "Id", "aggregate_type": "an art", "aggregate_id": "schlüssel",
                                          "event_type": "SELECT", "payload": 'pay"load'}
    box.init()
    with box.relay() as relay:
        box.sql(f"INSERT INTO {table} DEFAULT VALUES")
        relay.wait_for(lambda: len(box.ids(relay)) == 1, 15, "the event is written")
        [line] = relay.stdout_lines()
        assert (line["key"], line["value"], line["headers"]["event_type"]) == ("k", "{}", "t")
        assert line["headers"]["id"] == box.value(f'SELECT "Id"::text FROM {table}')
        assert box.command("check", "--connect")[0] == 0
        assert box.command("status")[0] == 0
        assert relay.terminate() == 0


def test_two_outbox_tables_with_their_own_routes_and_policies_share_a_relay(postgres):
    columns = "id int, aggregate_type text, aggregate_id text, event_type text, payload jsonb"
    box = ShapedOutbox(postgres, ddl=f"CREATE TABLE a ({columns}); CREATE TABLE b ({columns})", initialise=False)
    box.config["outbox"] = [
        {"table": {"name": "a"}, "route": {"topic": "topic-a"}, "on_null": {"payload": "empty"}},
        {"table": {"name": "b"}, "route": {"topic": "topic-b", "headers": {"id": "${id}"}}, "on_null": {"key": "send"}}]
    box.init()
    with box.relay() as relay:
        box.sql("INSERT INTO a VALUES (1, 'x', 'k', 'e', NULL); INSERT INTO b VALUES (2, 'x', NULL, 'e', NULL)")
        box.wait_ids(relay, ["1", "2"])
        a, b = relay.stdout_lines()
    assert (a["topic"], a["key"], a["value"], a["headers"]) == ("topic-a", "k", "", {"id": "1", "event_type": "e"})
    assert (b["topic"], b["key"], b["value"], b["headers"]) == ("topic-b", None, None, {"id": "2"})


@pytest.fixture(scope="module")
def refusing(postgres):
    box = ShapedOutbox(postgres)
    box.sql("ALTER TABLE outbox_events ADD COLUMN topic text, ADD COLUMN shard text")
    box.config["defaults"]["route"] = {"topic": "${topic}", "partition": "${shard}"}
    box.config["defaults"]["on_null"] = {"payload": "halt"}
    return box


REFUSED = {
    "non-ascii": ({"topic": "bestellung ü"}, 'topic "bestellung ü" is no name that Kafka takes'),
    "space": ({"topic": "a b"}, 'topic "a b" is no name'),
    "empty": ({"topic": ""}, "it is empty"),
    "null": ({"topic": None}, 'topic needs column "topic", which is NULL'),
    "dots": ({"topic": ".."}, "Kafka reserves that name"),
    "long": ({"topic": "x" * 250}, "longer than 249"),
    "null-key": ({"topic": "t", "aggregate_id": None}, 'key needs column "aggregate_id", which is NULL.*on_null.key'),
    "null-payload": ({"topic": "t", "payload": None}, "payload is NULL.*on_null.payload"),
    "partition": ({"topic": "t", "shard": "-1"}, 'partition "-1" is not a number'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_row_that_cannot_be_sent_halts_and_flows_once_the_route_is_changed(refusing, case):
    """The halt names the event; what came before it goes out once; nothing from it on is confirmed."""
    box = refusing
    columns, message = REFUSED[case]
    with box.connect() as connection, connection.cursor() as cursor:
        good = [box.insert(cursor, topic="t"), box.insert(cursor, topic="t")]
        bad = box.insert(cursor, **columns)
        good_after = box.insert(cursor, topic="t")
        before = box.wal_end()
    with box.relay() as relay:
        relay.wait_for(lambda: relay.metric("outbox_relay_halts_total") >= 2, 15, "it has tried again")
        assert relay.metric("outbox_relay_up_state", state="halted") == 1
        reason = relay.wait_log(rf"halted: the event id {bad} in public.outbox_events cannot be sent "
                                rf"\(transaction \d+ committed at [0-9A-F]+/[0-9A-F]+, its insert number 3\): .*{message}")
        assert relay.stderr().count(reason[0]) == 1  # Said once, not at every try.
        assert relay.ready() == (503, relay.ready()[1]) and bad in relay.ready()[1]
        assert relay.live()[0] == 200
        assert box.ids(relay) == good
        assert box.confirmed() <= before
        assert relay.terminate() in (0, 75)

    # The way past it: a route that takes the row. Nothing is skipped.
    config = dict(box.config["defaults"])
    box.config["defaults"] = {"route": {"topic": "rest"}, "on_null": {"key": "send", "payload": "tombstone"}}
    try:
        with box.relay() as relay:
            box.wait_ids(relay, [*good, bad, good_after])
            box.wait_confirmed(relay)
            assert relay.terminate() == 0
    finally:
        box.config["defaults"] = config


def test_text_from_a_row_cannot_forge_a_line_of_the_log(refusing):
    box = refusing
    forged = "x\n2026-01-01T00:00:00.000Z info all is well\x1b[2J"
    box.insert(topic=forged)
    with box.relay() as relay:
        relay.wait_state("halted")
        relay.wait_log("halted: the event")
        lines = relay.stderr().splitlines()
        assert not any(line.startswith("2026-01-01T00:00:00.000Z") for line in lines)
        assert "\x1b" not in relay.stderr()
    box.config["defaults"] = {"route": {"topic": "rest"}}
    with box.relay() as relay:
        eventually(lambda: len(box.ids(relay)) == 1, 15, "the event is written")
