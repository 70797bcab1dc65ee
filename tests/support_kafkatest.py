"""The support code itself: every server version starts and does what tests will ask of it."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg2
import pytest

from support import reaper
from support.kafka import Kafka
from support.postgres import Postgres
from support.relay import parse_metrics
from support.wait import eventually


def test_every_postgres_decodes_through_pgoutput(every_postgres):
    pg = every_postgres
    assert pg.value("SHOW server_version").startswith(str(pg.version))
    pg.sql("CREATE TABLE t (id int PRIMARY KEY)")
    pg.sql("CREATE PUBLICATION p FOR TABLE t")
    pg.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    pg.sql("INSERT INTO t VALUES (1)")

    changes = pg.sql("SELECT get_byte(data, 0) FROM pg_logical_slot_peek_binary_changes("
                     "'s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')")

    assert bytes(first for first, in changes) == b"BRIC"  # Begin, Relation, Insert, Commit
    assert pg.slot("s")["plugin"] == "pgoutput"


def test_a_promoted_standby_is_on_another_timeline():
    with Postgres(18) as primary:
        primary.sql("CREATE TABLE t (id int)")
        primary.stop()
        copy = primary.copy_data()
        primary.start()
        primary.sql("INSERT INTO t VALUES (1)")
        with Postgres(18, data_from=copy, standby_of=primary) as standby:
            eventually(lambda: standby.sql("SELECT * FROM t") == [(1,)], 20, "the row arrives")
            standby.promote()
            standby.sql("INSERT INTO t VALUES (2)")
            standby.sql("CHECKPOINT")
            assert standby.value("SELECT timeline_id FROM pg_control_checkpoint()") == 2


def test_a_killed_postgres_keeps_what_was_committed_and_its_port():
    with Postgres() as pg:
        pg.sql("CREATE TABLE t (id int)")
        port = pg.port
        pg.kill()
        assert not pg.running
        pg.start()
        assert pg.port == port
        assert pg.sql("SELECT * FROM t") == []


def test_a_role_that_needs_a_password_is_refused_without(postgres):
    postgres.sql("CREATE ROLE guarded LOGIN")
    postgres.require_password("guarded", "it's secret")
    try:
        with pytest.raises(psycopg2.OperationalError):
            postgres.connect(user="guarded", tcp=True)
        postgres.connect(user="guarded", tcp=True, password="it's secret").close()
    finally:
        postgres.set_hba()


def test_psql_stops_at_the_first_error(postgres, tmp_path):
    file = tmp_path / "file.sql"
    file.write_text("SELECT 40 + 2 AS answer;\n")
    assert "42" in postgres.psql(file)
    with pytest.raises(RuntimeError, match="no_such_table"):
        postgres.psql("SELECT * FROM no_such_table;")


def test_a_record_comes_back_from_kafka_as_it_went_in(kafka):
    kafka.create_topic("support-record", partitions=3)
    kafka.produce("support-record", key=b"7", value=b'{"a": 1}', headers=[("id", b"x"), ("none", None)])
    kafka.produce("support-record", key=b"7", value=None, partition=2)

    first, second = sorted(kafka.consume("support-record", until=2), key=lambda r: r.timestamp)

    assert (first.key, first.value) == (b"7", b'{"a": 1}')
    assert first.headers == [("id", b"x"), ("none", None)] and first.header("id") == b"x"
    assert (second.value, second.partition) == (None, 2)
    assert len(kafka.consume("^support-rec.*")) == 2
    assert sum(kafka.high_watermarks("support-record").values()) == 2


def test_a_topic_limit_can_be_changed(kafka):
    kafka.create_topic("support-limit", config={"max.message.bytes": "1000"})
    with pytest.raises(RuntimeError, match="MSG_SIZE_TOO_LARGE"):
        kafka.produce("support-limit", value=b"x" * 2000)
    kafka.alter_topic_config("support-limit", {"max.message.bytes": "10000"})
    kafka.produce("support-limit", value=b"x" * 2000)
    assert [len(record.value) for record in kafka.consume("support-limit")] == [2000]


def test_the_java_producer_says_which_partition_it_chose(kafka):
    kafka.create_topic("support-java", partitions=7)
    keys = [f"key-{number}" for number in range(50)] + ["ключ"]

    chosen = kafka.java_partitions("support-java", keys)

    assert {r.key.decode(): r.partition for r in kafka.consume("support-java")} == chosen
    assert list(chosen) == keys and len(set(chosen.values())) == 7


def test_three_brokers_replicate_and_one_may_be_killed():
    with Kafka(brokers=3) as kafka:
        kafka.create_topic("support-three", partitions=3, config={"min.insync.replicas": "2"})
        kafka.brokers[2].kill()
        kafka.produce_all([("support-three", None, b"x", None, partition) for partition in range(3)])
        assert len(kafka.consume("support-three", until=3)) == 3


def test_a_paused_or_killed_kafka_comes_back_with_its_records(kafka):
    kafka.create_topic("support-again")
    kafka.produce("support-again", value=b"kept")
    kafka.pause()
    with pytest.raises(TimeoutError):
        kafka.consume("support-again", until=1, deadline_s=1)
    kafka.resume()
    assert len(kafka.consume("support-again")) == 1
    kafka.kill()
    kafka.start()
    assert len(kafka.consume("support-again")) == 1


def test_servers_end_with_a_test_process_that_is_killed(tmp_path):
    script = textwrap.dedent("""
        import os, signal
        from support.postgres import Postgres
        pg = Postgres().start()
        print(pg.pid, pg.root, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, directory = done.stdout.split()
    eventually(lambda: reaper.start_time(int(pid)) is None, 20, "the server ends")
    eventually(lambda: not Path(directory).exists(), 20, "its directory is removed")


def test_metrics_are_parsed_whatever_the_order_of_labels():
    text = '# HELP a b\n# TYPE a gauge\na{z="1",b="x\\"y"} 2\nplain 1e+06\nnan_one NaN\n'
    metrics = parse_metrics(text)
    assert metrics['a{b="x\\"y",z="1"}'] == 2
    assert metrics["plain"] == 1e6
