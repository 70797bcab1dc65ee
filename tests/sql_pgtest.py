"""Every file in sql/ runs in psql, twice, on every version, and together they make an outbox that is relayed."""

from pathlib import Path

import psycopg2
import pytest

from support.postgres import Postgres
from support.relay import RelayProcess, relay_config, run_command
from support.wait import eventually

FILES = sorted((Path(__file__).resolve().parents[1] / "sql").glob("*.sql"))
VERSIONS = (14, 15, 16, 17, 18)


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"pg{version}")
def shop(request):
    """A server on which every file has been run once, in the order of their names, with a password for the role."""
    with Postgres(request.param) as pg:
        pg.create_database("shop")
        for file in FILES:
            pg.psql(file, db="shop", variables={"password": "it's a 'secret'"})
        yield pg


def test_there_are_files():
    assert [file.name[:2] for file in FILES[:3]] == ["01", "02", "03"]


def test_every_file_can_be_run_again(shop):
    before = shop.sql("SELECT count(*) FROM outbox_events", db="shop")
    for file in FILES:
        shop.psql(file, db="shop", variables={"password": "it's a 'secret'"})
    # The example adds its order and nothing else changes.
    assert shop.sql("SELECT count(*) FROM outbox_events", db="shop")[0][0] == before[0][0] + 1
    assert shop.sql("SELECT pubname FROM pg_publication", db="shop") == [("outbox",)]


def test_the_table_and_each_of_its_columns_has_a_comment(shop):
    columns = shop.sql("SELECT attname, col_description(attrelid, attnum) FROM pg_attribute"
                       " WHERE attrelid = 'outbox_events'::regclass AND attnum > 0 ORDER BY attnum", db="shop")
    assert [name for name, _ in columns] == ["id", "aggregate_type", "aggregate_id", "event_type", "payload",
                                             "created_at", "sent_at"]
    assert [name for name, comment in columns if not comment] == []
    assert shop.value("SELECT obj_description('outbox_events'::regclass)", db="shop")


def test_a_service_need_only_say_what_happened_to_what(shop):
    [(event, created, sent)] = shop.sql(
        "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type) VALUES ('order', '7', 'Placed')"
        " RETURNING id, created_at, sent_at", db="shop")
    assert event and created and sent is None


def test_the_publication_sends_inserts_alone(shop):
    assert shop.sql("SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication"
                    " WHERE pubname = 'outbox'", db="shop") == [(True, False, False, False, True)]


def test_the_role_may_log_in_and_replicate_and_reads_no_table(shop):
    assert shop.sql("SELECT rolcanlogin, rolreplication, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls"
                    " FROM pg_roles WHERE rolname = 'relay'") == [(True, True, False, False, False, False)]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        shop.sql("SELECT * FROM outbox_events", db="shop", user="relay")


def test_the_role_runs_every_command_and_the_relay_with_its_password(shop, tmp_path):
    shop.set_hba(["local all relay scram-sha-256", "host all relay 127.0.0.1/32 scram-sha-256", *shop.hba])
    password = tmp_path / "password"
    password.write_text("it's a 'secret'\n")
    password.chmod(0o600)
    config = relay_config(shop, "shop", user="relay")
    config["source"]["password_file"] = str(password)
    for command in ("init", "status", "peek"):
        code, _, err = run_command([command], config)
        assert code == 0, err
    code, out, err = run_command(["check", "--connect"], config)
    assert code == 0 and "error" not in out and "warning" not in out, out + err
    with RelayProcess(config) as relay:
        relay.wait_streaming()
        shop.psql(FILES[-1], db="shop")
        eventually(lambda: len(relay.stdout_lines()) == 1, 15, "the example's event is written")
        [line] = relay.stdout_lines()
        assert (line["topic"], line["headers"]["event_type"]) == ("outbox.event.order", "OrderPlaced")
        assert line["key"] == shop.value("SELECT max(id)::text FROM orders", db="shop")
        assert relay.terminate() == 0
    assert run_command(["slot", "drop"], config)[0] == 0


def test_without_a_password_the_role_keeps_the_one_it_has(shop):
    before = shop.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'relay'")
    shop.psql(next(file for file in FILES if file.name.startswith("03")), db="shop")
    assert before and shop.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'relay'") == before
