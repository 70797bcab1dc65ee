"""init, status, peek and slot against real servers."""

import json
import signal
import subprocess

import pytest

from support.process import Process, make_directory, remove_directory
from support.relay import relay_binary
from support.shaped_outbox import ShapedOutbox
from support.wait import eventually


@pytest.fixture
def box(postgres):
    return ShapedOutbox(postgres)


@pytest.fixture
def bare(postgres):
    """Without publication and slot."""
    return ShapedOutbox(postgres, initialise=False)


class Command:
    """A one-shot command that is still running."""

    def __init__(self, box, *arguments):
        self.directory = make_directory("command")
        config = self.directory / "relay.yaml"
        config.write_text(json.dumps(box.config))
        self.process = Process([relay_binary(), *arguments, "--config", config], self.directory / "stderr",
                               stdout_path=self.directory / "stdout")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.running:
            self.process.kill()
        remove_directory(self.directory)

    def stdout(self):
        return (self.directory / "stdout").read_text()


# init

def test_init_makes_publication_and_slot_that_relay_on_every_version(every_postgres):
    box = ShapedOutbox(every_postgres, initialise=False)
    code, out, err = box.command("init")
    assert (code, out) == (0, ""), err
    assert "created publication" in err and "created replication slot" in err
    slot = box.pg.slot(box.name)
    assert (slot["plugin"], slot["database"], slot["temporary"]) == ("pgoutput", box.name, False)
    assert box.sql("SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication") == [
        (True, False, False, False, True)]
    code, _, err = box.command("init")
    assert code == 0 and err.count("is there already") == 2
    assert box.pg.slot(box.name) == slot
    event = box.insert()
    with box.relay() as relay:
        box.wait_ids(relay, [event])
        assert relay.terminate() == 0
    assert box.command("check", "--connect")[0] == 0
    code, out, _ = box.command("peek")
    assert (code, out) == (0, "")
    assert box.command("slot", "drop")[0] == 0 and box.pg.slot(box.name) is None


def test_init_adds_the_slot_alone_where_the_publication_is_there(bare):
    bare.sql(f"CREATE PUBLICATION {bare.name} FOR ALL TABLES WITH (publish = 'insert')")
    bare.init()
    assert bare.pg.slot(bare.name) and bare.value("SELECT puballtables FROM pg_publication")


def test_what_print_sql_prints_runs_in_psql_and_leads_to_a_working_relay(bare):
    code, out, err = bare.command("init", "--print-sql")
    assert (code, err) == (0, "")
    bare.pg.psql(out, db=bare.name)
    with bare.relay() as relay:
        bare.wait_ids(relay, [bare.insert()])


def test_print_sql_connects_to_nothing(bare):
    bare.config["source"].update(host="/nonexistent", database="nowhere")
    assert bare.command("init", "--print-sql")[0] == 0


def test_a_role_that_may_not_create_the_publication_gets_the_exact_statement(bare):
    role = f"plain_{bare.name}"
    bare.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    bare.config["source"]["user"] = role
    code, _, err = bare.command("init")
    assert code == 77
    statement = err.partition(" run: ")[2].strip()
    assert statement.startswith("CREATE PUBLICATION")
    assert bare.pg.slot(bare.name) is None
    bare.sql(statement)
    bare.init()
    with bare.relay() as relay:
        bare.wait_ids(relay, [bare.insert()])


def test_init_makes_no_slot_where_the_table_is_missing(bare):
    bare.sql("ALTER TABLE outbox_events RENAME TO elsewhere")
    code, _, err = bare.command("init")
    assert code != 0 and "outbox_events" in err
    assert bare.pg.slot(bare.name) is None


def test_init_waits_for_an_open_transaction_and_a_signal_ends_the_wait(bare):
    with bare.connect() as other, other.cursor() as cursor:
        bare.insert(cursor)
        with Command(bare, "init") as command:
            eventually(lambda: "waits for the transactions" in command.process.log_text(), 10, "it waits")
            eventually(lambda: bare.value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"
                                          " AND query LIKE '%%' || %s || '%%'", [bare.name]), 10, "the command runs")
            command.process.signal(signal.SIGTERM)
            assert command.process.wait(5) not in (0, None)
        eventually(lambda: bare.pg.slot(bare.name) is None, 10, "no half-made slot is left")
        with Command(bare, "init") as command:
            eventually(lambda: bare.pg.slot(bare.name), 10, "it waits again")
            other.commit()
            assert command.process.wait(10) == 0


# status

def status(box):
    code, out, err = box.command("status", "--json")
    assert code == 0, err
    return json.loads(out)


def test_status_without_a_relay_shows_the_slot_and_what_waits_in_it(box):
    box.config["http"] = {"listen": "127.0.0.1:1"}
    box.insert(payload=json.dumps("x" * 100_000))
    found = status(box)
    assert found["relay"] is None
    slot = found["slot"]
    assert (slot["name"], slot["active"], slot["wal_status"]) == (box.name, False, "reserved")
    assert slot["lag_bytes"] > 100 and slot["retained_bytes"] >= slot["lag_bytes"]
    assert "active_pid" not in slot and "oldest_transaction" not in slot
    code, out, _ = box.command("status")
    assert code == 0
    assert f'slot "{box.name}": not in use, wal_status reserved' in out and "relay: no answer" in out


def test_status_beside_a_relay_shows_its_state_and_numbers(box):
    with box.relay() as relay:
        box.config["http"] = {"listen": f"127.0.0.1:{relay.http_port}"}
        box.wait_ids(relay, [box.insert()])
        box.wait_confirmed(relay)
        found = eventually(lambda: (s := status(box)) and s["relay"]["events_delivered"] == 1 and s, 10, "it counts")
        assert found["slot"]["active"] and found["slot"]["active_pid"] == box.pg.walsender_pid(box.name)
        assert found["relay"]["state"] == "streaming" and found["relay"]["events_in_flight"] == 0
        assert found["slot"]["lag_bytes"] < 10_000
        out = box.command("status")[1]
        assert "relay: streaming" in out and "1 events delivered" in out


def test_status_names_the_transaction_that_pins_restart_lsn(box):
    with box.connect(application_name="batch job") as other, other.cursor() as cursor:
        box.insert(cursor)
        found = status(box)["slot"]["oldest_transaction"]
        assert found == {"pid": other.get_backend_pid(), "application_name": "batch job",
                         "state": "idle in transaction"}
        assert f"oldest open transaction: PID {other.get_backend_pid()} (batch job)" in box.command("status")[1]


def test_status_of_a_missing_slot_says_so(bare):
    code, out, err = bare.command("status", "--json")
    assert (code, out) == (66, "") and f'replication slot "{bare.name}" does not exist' in err


# peek

def peek(box, *arguments, **more):
    code, out, err = box.command("peek", *arguments, **more)
    assert code == 0, err
    return [json.loads(line)["headers"]["id"] for line in out.splitlines()]


def test_peek_prints_the_next_events_and_confirms_nothing(box):
    with box.connect() as connection, connection.cursor() as cursor:
        ids = [box.insert(cursor) for _ in range(3)]
    ids += [box.insert(), box.insert()]
    confirmed = box.confirmed()
    assert peek(box, "-n", 2) == ids[:2]
    assert peek(box, "-n", 4) == ids[:4]
    assert peek(box, "-n", 100) == ids
    assert peek(box) == ids
    assert box.confirmed() == confirmed
    with box.relay() as relay:
        box.wait_ids(relay, ids)
        assert relay.terminate() == 0
    assert peek(box) == []


def test_peek_says_that_the_slot_is_in_use_and_from_now_works_beside_the_relay(box):
    with box.relay() as relay:
        relay.wait_streaming()
        code, out, err = box.command("peek", "-n", 1)
        assert (code, out) == (69, "")
        assert f"in use by PID {box.pg.walsender_pid(box.name)}" in err and "--from-now" in err
        old = box.insert()
        with Command(box, "peek", "--from-now", "-n", "2") as command:
            eventually(lambda: "created replication slot" in command.process.log_text(), 10, "its slot is there")
            new = [box.insert(), box.insert()]
            assert command.process.wait(10) == 0
            assert [json.loads(line)["headers"]["id"] for line in command.stdout().splitlines()] == new
        box.wait_ids(relay, [old, *new])
        assert relay.terminate() == 0
    assert box.value("SELECT count(*) FROM pg_replication_slots WHERE database = %s", [box.name]) == 1


# slot drop

def test_slot_drop_refuses_while_the_slot_is_in_use_unless_forced(box):
    with box.relay() as relay:
        relay.wait_streaming()
        code, _, err = box.command("slot", "drop")
        assert code == 69 and f"in use by PID {box.pg.walsender_pid(box.name)}" in err and "--force" in err
        assert relay.ready()[0] == 200
        code, _, err = box.command("slot", "drop", "--force")
        assert code == 0, err
        assert box.pg.slot(box.name) is None
        # The relay finds its slot gone: it ends, and makes none by itself.
        assert relay.wait_exit(15) == 66
        assert "has been dropped; its last known position is" in relay.stderr()
    assert box.command("slot", "drop")[0] == 66


def test_a_reader_that_stops_half_way_ends_peek_without_noise(box):
    for _ in range(3):
        box.insert()
    directory = make_directory("pipe")
    try:
        config = directory / "relay.yaml"
        config.write_text(json.dumps(box.config))
        done = subprocess.run(f"'{relay_binary()}' peek -n 3 --config '{config}' | head -n 1", shell=True, timeout=30,
                              capture_output=True, text=True)
        assert len(done.stdout.splitlines()) == 1 and "Sanitizer" not in done.stderr
    finally:
        remove_directory(directory)
