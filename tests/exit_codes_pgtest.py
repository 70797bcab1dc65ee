"""Exit codes: one table for people, systemd and the code; and what ends the relay really ends it so (case G3, C10, C11)."""

import re
import shutil
import signal
from pathlib import Path

import pytest

from support.ports import free_port
from support.postgres import Postgres
from support.process import Process, make_directory, remove_directory, service_account
from support.relay import RelayProcess, run_command
from support.shaped_outbox import ShapedOutbox
from support.wait import eventually

ROOT = Path(__file__).resolve().parents[1]


def codes_of_the_source():
    text = (ROOT / "cdc/exit_codes.h").read_text()
    return {int(code): name for name, code in re.findall(r"^  (\w+) = (\d+),", text, re.MULTILINE)}


def codes_of_the_help():
    _, out, _ = run_command(["--help"])
    listed = re.search(r"Exit codes: (.*?)\.\s*$", out, re.DOTALL)[1]
    return {int(code): " ".join(name.split()) for code, name in re.findall(r"(\d+) ([^,]+)", listed)}


def rows_of_the_readme():
    """The cells of the table whose header begins with code, name."""
    lines = (ROOT / "README.md").read_text().splitlines()
    [start] = [n for n, line in enumerate(lines) if re.match(r"\|\s*code\s*\|\s*name\s*\|", line, re.IGNORECASE)]
    header = [cell.strip() for cell in lines[start].strip("|").split("|")]
    rows = []
    for line in lines[start + 2:]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(header, (cell.strip().strip("`") for cell in line.strip("|").split("|")))))
    return rows


def codes_of_the_unit():
    unit = (ROOT / "systemd/outbox-relay.service").read_text()
    return set(map(int, re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)[1].split()))


def test_the_help_and_the_source_name_the_same_codes():
    assert set(codes_of_the_help()) == set(codes_of_the_source())


def test_the_readme_has_a_row_for_each_code_and_no_other():
    assert {int(row["code"]) for row in rows_of_the_readme()} == set(codes_of_the_source())


def test_systemd_restarts_what_the_readme_says_a_restart_mends():
    mends = {int(row["code"]): next(value for name, value in row.items() if "restart" in name.lower())
             for row in rows_of_the_readme()}
    not_mended = {code for code, says in mends.items() if code != 0 and says.lower().startswith("no")}
    assert not_mended == codes_of_the_unit()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["run"], ["run", "--config"], ["run", "--verbose"],
                                       ["peek", "-n", "0", "--config", "x"], ["slot", "--config", "x"]])
def test_a_usage_error_is_64(arguments):
    code, out, err = run_command(arguments)
    assert code == 64 and err + out != ""


def test_a_misspelt_command_is_told_the_nearest():
    code, _, err = run_command(["statsu"])
    assert code == 64 and 'did you mean "status"?' in err


def test_everything_wrong_in_a_file_is_said_in_one_run_with_what_the_libraries_refuse(tmp_path):
    file = tmp_path / "relay.yaml"
    file.write_text("""version: 1
source: {database: shop, publicaton: {name: x}, libpq: {sslmodee: require}}
sink: {kafka: {brokers: ["localhost:9092"], properties: {linger.mss: 5, acks: 1}}}
shutdown: {grace: 20}
""")
    code, _, err = run_command(["check", "--config", str(file)])
    said = [line.removeprefix(f"{file}:") for line in err.splitlines()]
    assert code == 78 and [line.split(" ")[0] for line in said] == ["2:26:", "2:57:", "3:58:", "3:73:", "4:19:"]
    for line, nearest in zip(said, ["publication", "sslmode", "linger.ms"]):
        assert f'did you mean "{nearest}"?' in line


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["slot", "drop", "--help"]])
def test_help_and_version_succeed(arguments):
    code, out, err = run_command(arguments)
    assert (code, err) == (0, "") and out


# Ends of `run`

@pytest.fixture(scope="module")
def pg():
    with Postgres(15, settings={"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}) as pg:
        yield pg


def exit_of(config, deadline_s=30):
    with RelayProcess(config) as relay:
        return relay.wait_exit(deadline_s), relay.stderr()


def test_wrong_password_missing_slot_lost_slot_and_bad_config_have_four_codes(pg, tmp_path):
    box = ShapedOutbox(pg)
    role = f"guarded_{box.name}"
    pg.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    pg.require_password(role, "right")
    box.config["source"]["user"] = role
    found = {}

    box.config["source"]["password"] = "wrong"
    found["password"], said = exit_of(box.config)
    # Bounded: a wrong password must not lock the account in a directory behind PostgreSQL.
    assert 1 < len(re.findall(r"warning .*password authentication failed", said)) <= 10
    assert "pg_hba.conf" in said and "28P01" not in said
    box.config["source"]["password"] = "right"

    box.config["source"]["slot"]["name"] = "absent"
    found["slot"], said = exit_of(box.config)
    assert 'replication slot "absent" does not exist' in said and pg.slot("absent") is None
    box.config["source"]["slot"]["name"] = box.name

    for _ in range(10):
        pg.sql("CREATE TABLE IF NOT EXISTS filler (id int)")
        pg.sql("INSERT INTO filler VALUES (1)")
        pg.sql("SELECT pg_switch_wal()")
        pg.sql("CHECKPOINT")
    assert pg.slot(box.name)["wal_status"] == "lost"
    found["lost"], said = exit_of(box.config)
    assert "is lost" in said

    box.config["sink"] = {"kafka": {}}
    found["config"], said = exit_of(box.config)
    assert "relay.yaml:" in said
    assert found == {"password": 77, "slot": 66, "lost": 65, "config": 78}
    pg.set_hba()


@pytest.mark.parametrize("change,code,text", [
    ({"database": "nowhere"}, 78, "source.database"),
    ({"user": "nobody_such"}, 77, "source.user"),
    ({"publication": {"name": "absent"}}, 66, 'publication "absent" does not exist'),
])
def test_what_a_restart_cannot_mend_ends_the_relay(pg, change, code, text):
    box = ShapedOutbox(pg)
    box.config["source"].update(change)
    ended, said = exit_of(box.config)
    assert ended == code and text in said


def test_a_password_file_that_cannot_be_read_is_a_config_error(pg):
    box = ShapedOutbox(pg)
    box.config["source"]["password_file"] = "/nonexistent/password"
    ended, said = exit_of(box.config)
    assert ended == 78 and "/nonexistent/password" in said


def test_a_password_file_that_anyone_can_read_is_refused(pg, tmp_path):
    box = ShapedOutbox(pg)
    file = tmp_path / "password"
    file.write_text("swordfish\n")
    file.chmod(0o644)
    box.config["source"]["password_file"] = str(file)
    ended, said = exit_of(box.config)
    assert ended == 78 and "chmod" in said and "swordfish" not in said


def test_a_changed_password_is_picked_up_at_the_next_connection(pg, tmp_path):
    box = ShapedOutbox(pg)
    role = f"rotating_{box.name}"
    pg.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    pg.require_password(role, "first")
    file = tmp_path / "password"
    file.write_text("first\n")
    file.chmod(0o600)
    box.config["source"].update(user=role, password_file=str(file))
    with box.relay() as relay:
        relay.wait_streaming()
        pg.sql(f"ALTER ROLE {role} PASSWORD 'second $''s'")
        file.write_text("")  # As it may be found in the middle of a rotation.
        old = pg.walsender_pid(box.name)
        pg.sql("SELECT pg_terminate_backend(%s)", [old])
        relay.wait_log("password_file.*connecting again")
        file.write_text("second $'s\n")
        relay.wait_for(lambda: pg.walsender_pid(box.name) not in (None, old), 20, "a new walsender")
        box.wait_ids(relay, [box.insert()])
        assert relay.terminate() == 0
    pg.set_hba()


def test_a_server_that_is_away_is_waited_for_and_a_signal_ends_the_wait(pg):
    box = ShapedOutbox(pg)
    box.config["source"].update(host="127.0.0.1", port=free_port())
    with box.relay() as relay:
        relay.wait_log("connecting again")
        assert relay.live()[0] == 200 and relay.ready()[0] == 503
        assert relay.terminate(5) == 0


def test_a_second_signal_ends_the_relay_at_once(postgres):
    box = ShapedOutbox(postgres)
    box.config["shutdown"] = {"grace": "60s"}
    rows = 100_000
    with box.relay() as relay:
        relay.wait_streaming()
        box.sql("INSERT INTO outbox_events (aggregate_id) SELECT n::text FROM generate_series(1, %s) n", [rows])
        relay.wait_for(lambda: relay.metric("outbox_relay_source_messages_total", type="insert") > 0, 20)
        # In mid-transaction; no Commit comes, so the first signal waits.
        with postgres.paused(postgres.walsender_pid(box.name)):
            assert relay.metric("outbox_relay_source_messages_total", type="insert") < rows
            relay.signal(signal.SIGTERM)
            relay.wait_log("stopping")
            relay.signal(signal.SIGTERM)
            assert relay.wait_exit(3) != 0


@pytest.fixture
def directory_for_servers():
    directory = make_directory("pgbouncer", service_account())
    yield directory
    remove_directory(directory)


def test_a_pooler_in_between_is_recognised(postgres, directory_for_servers):
    pg, directory = postgres, directory_for_servers
    box = ShapedOutbox(pg)
    port = free_port()
    ini = directory / "pgbouncer.ini"
    ini.write_text(f"[databases]\n* = host={pg.socket_dir} port={pg.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                   f"listen_port = {port}\nauth_type = any\nunix_socket_dir =\nlogfile = {directory}/bouncer.log\n"
                   "ignore_startup_parameters = extra_float_digits,options\n")
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
    assert program, "pgbouncer is missing: tests/support/install_packages.sh tests"
    bouncer = Process([program, ini], directory / "out", account=service_account())
    try:
        eventually(lambda: "process up" in bouncer.log_text() + _read(directory / "bouncer.log"), 10, "pgbouncer is up",
                   unless=bouncer.check_running)
        box.config["source"].update(host="127.0.0.1", port=port)
        ended, said = exit_of(box.config)
        assert ended == 78 and "looks like a connection pooler" in said, said
        code, _, said = box.command("check", "--connect")
        assert code == 78 and "looks like a connection pooler" in said
    finally:
        bouncer.kill()


def _read(path):
    return path.read_text() if path.exists() else ""
