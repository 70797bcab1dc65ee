"""check: the file alone, and with --connect both servers; each broken thing is named with what to type."""

import copy

import psycopg2
import pytest

from support.ports import free_port
from support.postgres import Postgres
from support.relay import RelayProcess, run_command
from support.shaped_outbox import ShapedOutbox


@pytest.fixture(scope="module")
def box(postgres, kafka):
    return ShapedOutbox(postgres, kafka)


@pytest.fixture
def config(box):
    return copy.deepcopy(box.config)


def check(config):
    return run_command(["check", "--connect"], config)


def errors(out):
    return [line.removeprefix("error").strip() for line in out.splitlines() if line.startswith("error")]


def test_a_valid_file_is_checked_without_touching_a_server(config):
    config["source"]["host"] = "/nonexistent"
    code, out, err = run_command(["check"], config)
    assert code == 0 and out.startswith("ok") and err == ""


def test_every_error_of_a_file_is_reported_with_its_place(tmp_path):
    file = tmp_path / "relay.yaml"
    file.write_text("version: 1\nsource:\n  databse: shop\n  port: many\nsink:\n  kafka:\n    brokers: []\n"
                    "    properties: {acks: 1}\n")
    code, out, err = run_command(["check", "--config", file])
    assert (code, out) == (78, "")
    for place in ("3:3", "4:9", "7:14", "8:18"):
        assert f"{file}:{place}" in err, err
    assert "did you mean" in err.lower() or "database" in err


@pytest.mark.parametrize("command", ["run", "init", "status", "peek"])
def test_every_command_refuses_a_broken_file_the_same_way(command):
    code, out, err = run_command([command], "version: 1\nsorce: {}\n")
    assert (code, out) == (78, "") and "relay.yaml:2:1" in err


def test_all_is_green_on_servers_that_are_ready(box, config, kafka):
    kafka.create_topic(f"{box.name}-literal", partitions=3)
    config["outbox"][0]["route"] = {"topic": f"{box.name}-literal"}
    code, out, err = check(config)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert all(line.startswith("ok ") for line in lines), out
    for part in ("PostgreSQL 15", "may replicate", "publishes inserts", "is published", "replication slot",
                 "Kafka answers", f"topic {box.name}-literal has 3 partitions"):
        assert part in out


def break_publication(box, config):
    config["source"]["publication"]["name"] = "absent"
    return 66, 'publication "absent" does not exist', "CREATE PUBLICATION \"absent\" FOR TABLE"


def break_inserts(box, config):
    box.sql("CREATE PUBLICATION no_inserts FOR TABLE outbox_events WITH (publish = 'update')")
    config["source"]["publication"]["name"] = "no_inserts"
    return 66, "publishes no inserts", "ALTER PUBLICATION \"no_inserts\" SET (publish = 'insert');"


def break_membership(box, config):
    box.sql("CREATE TABLE other (id int); CREATE PUBLICATION of_other FOR TABLE other WITH (publish = 'insert')")
    config["source"]["publication"]["name"] = "of_other"
    return 78, "is not in publication", "ALTER PUBLICATION \"of_other\" ADD TABLE \"public\".\"outbox_events\";"


def break_table(box, config):
    config["outbox"][0]["table"]["name"] = "outbox_event"
    return 78, 'table "public"."outbox_event" does not exist', "outbox[].table"


def break_slot(box, config):
    config["source"]["slot"]["name"] = "absent"
    return 66, 'replication slot "absent" does not exist', "outbox-relay init --config"


def break_plugin(box, config):
    box.sql("SELECT pg_create_logical_replication_slot('decoding', 'test_decoding')")
    config["source"]["slot"]["name"] = "decoding"
    return 78, 'plugin "test_decoding"', "Set source.slot.name"


def break_database(box, config):
    other = ShapedOutbox(box.pg)
    config["source"]["slot"]["name"] = other.name
    return 78, f'database "{other.name}"', "source.database to the slot's"


def break_role(box, config):
    role = f"no_replication_{box.name}"
    box.sql(f"CREATE ROLE {role} LOGIN")
    config["source"]["user"] = role
    return 77, "", "REPLICATION"


def break_topic(box, config):
    config["outbox"][0]["route"] = {"topic": "absent-topic"}
    return 78, "topic absent-topic does not exist", "kafka-topics.sh --bootstrap-server … --create --topic absent-topic"


def break_brokers(box, config):
    config["sink"]["kafka"]["brokers"] = [f"127.0.0.1:{free_port()}"]
    return 69, "Kafka at 127.0.0.1", "Check sink.kafka.brokers"


BREAKS = [value for name, value in list(globals().items()) if name.startswith("break_")]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda function: function.__name__)
def test_a_broken_thing_is_named_with_what_to_type(box, config, broken):
    expected, text, remedy = broken(box, config)
    code, out, err = check(config)
    assert code == expected, (code, out, err)
    said = "\n".join(errors(out)) + err
    assert text in said and remedy in said, (out, err)
    if broken not in (break_role,):
        assert len(errors(out)) == 1, out  # One thing is broken, one error is said.


def test_a_missing_column_is_a_warning_since_each_row_is_judged_by_its_own_shape(box, config):
    config["outbox"][0]["columns"] = {"payload": "body"}
    code, out, _ = check(config)
    assert code == 0
    assert 'warning  table "public"."outbox_events" has no column "body"' in out


def test_postgres_that_does_not_answer_is_unavailable(config):
    config["source"].update(host="127.0.0.1", port=free_port())
    code, _, err = check(config)
    assert code == 69 and "Connection refused" in err


def test_a_server_that_cannot_decode_or_would_wait_for_us_is_refused_by_check_and_run(kafka):
    with Postgres(15, settings={"wal_level": "replica"}) as pg:
        box = ShapedOutbox(pg, kafka, initialise=False)
        code, out, err = check(box.config)
        assert code == 78 and "ALTER SYSTEM SET wal_level = logical;" in out + err
        pg.set(wal_level="logical")
        pg.restart()
        box.init()
        pg.set(synchronous_standby_names="*", synchronous_commit="local")
        for names in ("*", "ANY 1 (other, \"outbox-relay\")", "FIRST 2 (a, *)"):
            pg.set(synchronous_standby_names=names)
            code, out, _ = check(box.config)
            assert code == 78 and "every commit would wait for Kafka" in out, out
        with RelayProcess(box.config) as relay:
            assert relay.wait_exit(15) == 78
            assert "every commit would wait for Kafka" in relay.stderr()
        pg.set(synchronous_standby_names="ANY 1 (other)")
        assert check(box.config)[0] == 0


def test_a_lost_slot_is_refused_with_the_way_out(kafka):
    with Postgres(15, settings={"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}) as pg:
        box = ShapedOutbox(pg, kafka)
        lose(pg, box.name)
        code, out, _ = check(box.config)
        [said] = errors(out)
        assert code == 65 and "is lost" in said and "outbox-relay slot drop and outbox-relay init" in said
        assert box.command("status")[0] == 65
        with box.relay() as relay:
            assert relay.wait_exit(15) == 65
            assert "is lost" in relay.stderr()


def lose(pg, slot):
    for _ in range(20):
        pg.sql("SELECT pg_switch_wal()")
        pg.sql("CREATE TABLE IF NOT EXISTS filler (id int)")
        pg.sql("INSERT INTO filler VALUES (1)")
        try:
            pg.sql("CHECKPOINT")
        except psycopg2.Error:
            pass
        if pg.slot(slot)["wal_status"] == "lost":
            return
    raise AssertionError(f"the slot is {pg.slot(slot)}")
