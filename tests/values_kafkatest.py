"""What of a row arrives in Kafka: values, keys, headers, timestamps, byte for byte (cases E1 to E7)."""

import time
import uuid

import pytest

from support.shaped_outbox import COLUMNS, ShapedOutbox

TABLES = "; ".join(f"CREATE TABLE {name} ({COLUMNS.replace('jsonb       DEFAULT', kind + ' DEFAULT')})"
                   for name, kind in [("as_jsonb", "jsonb"), ("as_json", "json"), ("as_text", "text")])

JSON_VALUES = [
    "[]", '[1,"a",null]', '{"a":null,"b":[]}', "12345678901234567890123", '"str"', "true", "null", "{}", "1e400",
    '{"k": "ünïcödé €", "emoji": "😀👩‍👩‍👧", "rtl": "שלום"}', '{"quote": "\\" \\\\ \' `", "lines": "a\\nb\\r\\n\\tc"}',
    '{"$ref": "${aggregate_id} $$ %s %n {}"}', '{"b": 1, "a": 2, "a": 3}', '{"deep": ' + "[" * 500 + "]" * 500 + "}",
    '"' + "x" * 990_000 + '"',
]
JSON_TEXTS_ONLY = ['{"a":"\\u0000"}', '"\\ud800"', '{"x" :\n\n 1,  "x":2}', ' [ 1 ] ', "1.0e0"]
TEXTS_ONLY = ["", " ", "not json", "\x01\x7f", "a\r\nb\n", "\ufeff", "NULL", "\\N"]


@pytest.fixture(scope="module")
def box(postgres, kafka):
    box = ShapedOutbox(postgres, kafka, ddl=TABLES, initialise=False)
    box.config["outbox"] = [{"table": {"name": name}, "route": {"topic": f"{box.name}.{name}"}}
                            for name in ("as_jsonb", "as_json", "as_text")]
    box.init()
    return box


@pytest.fixture(scope="module")
def relay(box):
    with box.relay() as relay:
        yield relay.wait_streaming()


@pytest.mark.parametrize("table,values", [
    ("as_jsonb", JSON_VALUES),
    ("as_json", JSON_VALUES + JSON_TEXTS_ONLY),
    ("as_text", JSON_VALUES + JSON_TEXTS_ONLY + TEXTS_ONLY),
])
def test_the_value_is_the_payload_as_postgres_prints_it(box, relay, kafka, table, values):
    with box.connect() as connection, connection.cursor() as cursor:
        ids = [box.insert(cursor, table=table, payload=value) for value in values]

    records = kafka.consume(f"{box.name}.{table}", until=len(ids))

    printed = dict(box.sql(f"SELECT id::text, convert_to(payload::text, 'UTF8') FROM {table}"))
    assert [record.header("id").decode() for record in records] == ids
    for record in records:
        assert record.value == bytes(printed[record.header("id").decode()])
    if table != "as_jsonb":
        assert [record.value.decode() for record in records] == values


@pytest.mark.parametrize("policy,expected", [(None, None), ("tombstone", None), ("empty", b"")])
def test_a_null_payload_becomes_what_the_policy_says(postgres, kafka, policy, expected):
    box = ShapedOutbox(postgres, kafka)
    if policy:
        box.config["defaults"]["on_null"] = {"payload": policy}
    box.insert(payload=None)
    box.insert(payload="null")
    with box.relay():
        null, json_null = kafka.consume(f"{box.name}.order", until=2)
    assert (null.value, json_null.value) == (expected, b"null")


KEYS = [("text", ""), ("text", " "), ("text", "ключ 😀 'q' \"d\"\n"), ("text", "k" * 10_240),
        ("bigint", -9223372036854775808), ("uuid", str(uuid.UUID(int=7)).upper()), ("boolean", True)]


def test_keys_are_plain_text_of_every_type(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    expected = []
    with box.relay() as relay:
        relay.wait_streaming()
        for kind, key in KEYS:
            box.sql(f"ALTER TABLE outbox_events DROP COLUMN aggregate_id, ADD COLUMN aggregate_id {kind}")
            box.insert(aggregate_id=key)
            expected.append(box.value("SELECT convert_to(aggregate_id::text, 'UTF8') FROM outbox_events"
                                      " WHERE aggregate_id IS NOT NULL"))
        records = kafka.consume(f"{box.name}.order", until=len(KEYS))
    # PostgreSQL prints a boolean as t, and casts it to true.
    assert [r.key for r in records] == [bytes(key) for key in expected[:-1]] + [b"t"]


def test_null_keys_are_sent_and_counted_where_the_policy_says_so(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    box.config["defaults"]["on_null"] = {"key": "send"}
    with box.relay() as relay:
        for key in (None, "", None):
            box.insert(aggregate_id=key)
        records = kafka.consume(f"{box.name}.order", until=3)
        relay.wait_for(lambda: relay.metric("outbox_relay_null_keys_total") == 2, 5, "both are counted")
    assert [record.key for record in records] == [None, b"", None]


def test_headers_hold_any_text_and_a_null_leaves_its_header_out(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    box.sql("ALTER TABLE outbox_events ADD COLUMN note text, ADD COLUMN trace text")
    box.config["defaults"]["route"]["headers"] = {
        "note": "${note}", "trace": "${trace}", "mixed": "<${trace}/${note}>", "fixed": "a b",
        "Ünï": "${event_type}"}
    notes = ["", "é \"quoted\" 😀\nnext: line", "n" * 8192, None]
    for note in notes:
        box.insert(note=note, trace="t")
    with box.relay():
        records = kafka.consume(f"{box.name}.order", until=len(notes))
    always = [("trace", b"t"), ("fixed", b"a b"), ("Ünï", b"OrderPlaced")]
    for record, note in zip(records, notes):
        with_note = [] if note is None else [("note", note.encode()), ("mixed", f"<t/{note}>".encode())]
        assert sorted(record.headers) == sorted(always + with_note)


SETTINGS = {"datestyle": "'German, DMY'", "intervalstyle": "'iso_8601'", "timezone": "'Asia/Tokyo'",
            "bytea_output": "'escape'", "extra_float_digits": "-15", "client_encoding": "'LATIN1'",
            "xmloption": "'document'", "lc_monetary": "'C'"}


def test_settings_of_role_and_database_change_no_byte(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    box.sql("ALTER TABLE outbox_events ADD COLUMN t timestamptz, ADD COLUMN d date, ADD COLUMN i interval,"
            " ADD COLUMN b bytea, ADD COLUMN f float8, ADD COLUMN r float4")
    box.config["defaults"]["route"]["headers"] = {name: f"${{{name}}}" for name in "tdibfr"}
    role = f"role_{box.name}"
    box.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    box.config["source"]["user"] = role
    for name, value in SETTINGS.items():
        for whose in (f"ROLE {role}", f"DATABASE {box.name}", f"ROLE {role} IN DATABASE {box.name}"):
            box.sql(f"ALTER {whose} SET {name} = {value}")
    with box.connect() as connection, connection.cursor() as cursor:
        connection.set_client_encoding("UTF8")
        cursor.execute("INSERT INTO outbox_events (payload, t, d, i, b, f, r) VALUES (%s, '2024-02-03 04:05:06.789+02',"
                       " '2024-02-03'::date, '1 year 2 mons -3 days 04:05:06.7', '\\xdeadbeef00', 0.1::float8 + 0.2,"
                       " 1.1)", ['{"price": "5 €"}'])
    with box.relay():
        [record] = kafka.consume(f"{box.name}.order", until=1)
    assert record.value.decode() == '{"price": "5 €"}'
    assert {name: value.decode() for name, value in record.headers} == {
        "t": "2024-02-03 02:05:06.789+00", "d": "2024-02-03", "i": "1 year 2 mons -3 days +04:05:06.7",
        "b": "\\xdeadbeef00", "f": "0.30000000000000004", "r": "1.1"}


def test_every_record_of_a_large_transaction_carries_the_time_of_its_commit(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    rows = 20_000
    with box.relay() as relay:
        relay.wait_streaming()
        with box.connect() as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO outbox_events (aggregate_id, payload) SELECT (n %% 50)::text,"
                           " jsonb_build_object('n', n) FROM generate_series(1, %s) n", [rows])
            before = time.time()
        after = time.time()
        records = kafka.consume(f"{box.name}.order", until=rows, deadline_s=60)
        relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == rows, 20)
        assert relay.terminate() == 0
    assert [record.value for record in records] == [b'{"n": %d}' % n for n in range(1, rows + 1)]
    [timestamp] = {record.timestamp for record in records}
    assert int(before * 1000) <= timestamp <= after * 1000


def test_topic_names_keep_their_case_and_dots(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    types = ["Order", "ORDER", "order.v1", "x" * (249 - len(box.name) - 1)]
    for kind in types:
        box.insert(aggregate_type=kind)
    with box.relay():
        records = kafka.consume([f"{box.name}.{kind}" for kind in types], until=len(types))
    assert {record.topic for record in records} == {f"{box.name}.{kind}" for kind in types}


def test_a_topic_that_collides_with_another_halts_and_flows_once_the_route_is_changed(postgres, kafka):
    """Kafka itself refuses a.b beside a_b."""
    box = ShapedOutbox(postgres, kafka)
    box.insert(aggregate_type="a.b")
    with box.relay() as relay:
        kafka.consume(f"{box.name}.a.b", until=1)
        box.wait_confirmed(relay)
        before = box.confirmed()
        second = box.insert(aggregate_type="a_b")
        relay.wait_state("halted")
        assert f'topic "{box.name}.a_b"' in relay.ready()[1]
        assert box.confirmed() == before
        relay.terminate()
    box.config["defaults"]["route"]["topic"] = box.name + ".rest"
    with box.relay():
        assert [r.header("id").decode() for r in kafka.consume(f"{box.name}.rest", until=1)] == [second]
