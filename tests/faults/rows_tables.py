"""Rows 27 to 44: what SQL does to the outbox, its publication, its slot and its role, and what stands in the way of a start."""

import io
import re
import shutil
import time

from faults.scenario import scenario
from faults.witness import arrived, check_delivered, committed, watch
from support.outbox import SQL, Outbox
from support.ports import free_port
from support.process import Process, make_directory, remove_directory, service_account
from support.relay import run_command
from support.wait import eventually


def wait_all(outbox, relay, deadline_s=60):
    outbox.wait_confirmed(relay, deadline_s)


def cut_off(outbox, relay):
    """The relay stands still and its walsender has ended, so that it reads nothing until `resume()`."""
    relay.pause()
    pid = outbox.pg.walsender_pid(outbox.name)
    if pid is not None:
        outbox.pg.sql("SELECT pg_terminate_backend(%s, 5000)", [pid])


# Rows and transactions

@scenario(row=27, title="savepoints, two-phase, COPY, multi-row, insert and delete in one transaction")
def transactions_of_every_shape(world):
    pg = world.pg(15, max_prepared_transactions=20)
    outbox = watch(world.outbox(pg, partitions=3))
    shapes = [_rolled_back, _savepoints, _prepared, _prepared_and_abandoned, _copied, _many_rows, _deleted_at_once]
    with outbox.relay() as relay:
        relay.wait_streaming()
        for number in range(40 * world.cycles):
            world.chance.choice(shapes)(outbox, world.chance, number)
            if world.chance.random() < 0.1:
                relay.kill9()
                relay.start()
        relay.wait_streaming()
        wait_all(outbox, relay)
    assert len(committed(outbox)) > 50
    # A kill may repeat what was in flight at that moment.
    return check_delivered(outbox, duplicates=len(committed(outbox)))


def _keys(chance, count):
    return [f"key-{chance.randrange(7)}" for _ in range(count)]


def _rolled_back(outbox, chance, _):
    connection = outbox.connect()
    outbox.insert(*_keys(chance, 3), connection=connection)
    connection.rollback()
    connection.close()


def _savepoints(outbox, chance, _):
    with outbox.connect() as connection, connection.cursor() as cursor:
        outbox.insert(*_keys(chance, 1), connection=connection)
        for name in "abc":
            cursor.execute(f"SAVEPOINT {name}")
            outbox.insert(*_keys(chance, 2), connection=connection)
            cursor.execute(f"ROLLBACK TO {name}" if chance.random() < 0.5 else f"RELEASE {name}")
    connection.close()


def _prepared(outbox, chance, number, end="COMMIT"):
    connection = outbox.connect(autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        outbox.insert(*_keys(chance, 3), connection=connection)
        cursor.execute(f"PREPARE TRANSACTION 'number {number}'")
        outbox.insert(*_keys(chance, 1))
        cursor.execute(f"{end} PREPARED 'number {number}'")
    connection.close()


def _prepared_and_abandoned(outbox, chance, number):
    _prepared(outbox, chance, number, end="ROLLBACK")


def _copied(outbox, chance, _):
    lines = "".join(f"order\t{key}\tOrderPlaced\t{{}}\n" for key in _keys(chance, 20))
    with outbox.connect() as connection, connection.cursor() as cursor:
        cursor.copy_expert("COPY outbox_events (aggregate_type, aggregate_id, event_type, payload) FROM STDIN",
                           io.StringIO(lines))
    connection.close()


def _many_rows(outbox, chance, _):
    outbox.sql("INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)"
               " SELECT 'order', 'key-' || n %% 7, 'OrderPlaced', '{}' FROM generate_series(1, %s) n",
               [chance.randrange(1, 200)])


def _deleted_at_once(outbox, chance, _):
    with outbox.connect() as connection, connection.cursor() as cursor:
        events = outbox.insert(*_keys(chance, 2), connection=connection)
        cursor.execute("DELETE FROM outbox_events WHERE id = ANY (%s::uuid[])", [events])
    connection.close()


# The table

@scenario(row=28, title="columns are added, dropped, renamed and retyped in mid-stream; a missing one halts by name")
def columns_change(world):
    outbox = watch(world.outbox(world.pg(15)))
    changes = ["ADD COLUMN extra text DEFAULT 'e'", "ALTER COLUMN extra TYPE varchar(40)", "RENAME COLUMN extra TO other",
               "DROP COLUMN other", "ALTER COLUMN payload TYPE text", "ALTER COLUMN event_type TYPE varchar(60)"]
    with outbox.relay() as relay:
        relay.wait_streaming()
        for change in changes:
            outbox.sql(f"ALTER TABLE outbox_events {change}")
            outbox.insert("key-1", "key-2")
        wait_all(outbox, relay)
        before = outbox.confirmed()
        outbox.sql("ALTER TABLE outbox_events RENAME COLUMN aggregate_id TO renamed")
        outbox.sql("INSERT INTO outbox_events (id, aggregate_type, renamed, event_type, payload)"
                   " VALUES (gen_random_uuid(), 'order', 'key-1', 'OrderPlaced', '{}')")
        end = outbox.written()
        relay.wait_state("halted")
        reason = relay.ready()[1]
        assert 'no column "aggregate_id", which the key needs' in reason and "renamed" in reason, reason
        assert before <= outbox.confirmed() < end and relay.live()[0] == 200
        assert relay.terminate() == 0
    with outbox.relay(defaults__columns={"aggregate_id": "renamed"}) as relay:
        wait_all(outbox, relay)
    return check_delivered(outbox)


@scenario(row=29, title="the table is renamed and moved to another schema; the next start names both")
def table_moves(world):
    outbox = watch(world.outbox(world.pg(15)))
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        outbox.sql("ALTER TABLE outbox_events RENAME TO outbox_moved")
        outbox.sql("CREATE SCHEMA elsewhere; ALTER TABLE outbox_moved SET SCHEMA elsewhere")
        for number in range(3):
            _insert_into(outbox, "elsewhere.outbox_moved", f"key-{number}")
        wait_all(outbox, relay)
        assert relay.terminate() == 0
        _insert_into(outbox, "elsewhere.outbox_moved", "key-1")
        before = outbox.confirmed()
        relay.start()
        relay.wait_state("halted")
        reason = relay.ready()[1]
        assert '"public"."outbox_events"' in reason and "elsewhere.outbox_moved" in reason, reason
        assert outbox.confirmed() == before
    with outbox.relay(outbox=[{"table": {"schema": "elsewhere", "name": "outbox_moved"}}]) as relay:
        wait_all(outbox, relay)
    return check_delivered(outbox)


def _insert_into(outbox, table, key):
    outbox.sql(f"INSERT INTO {table} (id, aggregate_type, aggregate_id, event_type, payload)"
               " VALUES (gen_random_uuid(), 'order', %s, 'OrderPlaced', '{}')", [key])


@scenario(row=30, title="rows are truncated, and the table is dropped, before they are read")
def table_is_emptied_and_dropped(world):
    outbox = watch(world.outbox(world.pg(15)))
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        cut_off(outbox, relay)
        outbox.insert(*(f"key-{number % 5}" for number in range(100)))
        outbox.sql("TRUNCATE outbox_events")
        relay.resume()
        wait_all(outbox, relay)
        cut_off(outbox, relay)
        outbox.insert(*(f"key-{number % 5}" for number in range(100)))
        wanted = committed(outbox)
        outbox.sql("DROP TABLE outbox_events")
        end = outbox.written()
        relay.resume()
        # A table that has gone may have been renamed: it halts by name, keeps its place, and goes on once there is one.
        relay.wait_state("halted")
        assert 'table "public"."outbox_events" does not exist' in relay.ready()[1] and outbox.confirmed() < end
        outbox.pg.psql(SQL / "01_outbox_events.sql", db=outbox.name)
        outbox.sql(f"ALTER PUBLICATION {outbox.name} ADD TABLE outbox_events")
        relay.wait_streaming(60)
        wait_all(outbox, relay)
    return check_delivered(outbox, expected=wanted)


@scenario(row=31, title="a partition is created, and one is detached")
def partitions_come_and_go(world):
    pg = world.pg(15)
    outbox = world.outbox(pg)
    outbox.sql("DROP TABLE outbox_events; CREATE TABLE outbox_events (id uuid DEFAULT gen_random_uuid(), aggregate_type"
               " text DEFAULT 'order', aggregate_id text DEFAULT 'key-1', event_type text DEFAULT 'Placed', payload jsonb"
               " DEFAULT '{}', month int) PARTITION BY LIST (month);"
               " CREATE TABLE month_1 PARTITION OF outbox_events FOR VALUES IN (1);"
               f" ALTER PUBLICATION {outbox.name} ADD TABLE outbox_events;"
               f" ALTER PUBLICATION {outbox.name} SET (publish_via_partition_root = true)")
    outbox.sql("SELECT pg_drop_replication_slot(%s)", [outbox.name])
    outbox.create_slot()
    watch(outbox)
    with outbox.relay() as relay:
        relay.wait_ready()
        outbox.sql("INSERT INTO outbox_events (month) VALUES (1)")
        outbox.sql("CREATE TABLE month_2 PARTITION OF outbox_events FOR VALUES IN (2)")
        outbox.sql("INSERT INTO outbox_events (month) VALUES (2), (1)")
        wait_all(outbox, relay)
        outbox.sql("ALTER TABLE outbox_events DETACH PARTITION month_1")
        outbox.sql("INSERT INTO outbox_events (month) VALUES (2)")
        wait_all(outbox, relay)
        assert len(arrived(outbox)) == 4
        # What is written straight into the detached one is not published, and PostgreSQL says nothing.
        outbox.sql("INSERT INTO month_1 (month) VALUES (1)")
        oid = outbox.sql("SELECT 'month_1'::regclass::oid::bigint")[0][0]
        relay.wait_log(f"relation {oid} is no longer a part of .*detached", 30)
    return check_delivered(outbox)


# The publication

def _publication_dropped(world, version):
    outbox = world.outbox(world.pg(version))
    with outbox.relay() as relay:
        relay.wait_streaming()
        before = outbox.insert("key-1", "key-2")
        wait_all(outbox, relay)
        relay.pause()
        outbox.sql(f"DROP PUBLICATION {outbox.name}")
        outbox.insert("key-3")
        end = outbox.written()
        relay.resume()
        assert relay.wait_exit() == 66
        said = relay.stderr()
        assert f'publication "{outbox.name}"' in said and re.search(r"[0-9A-F]+/[0-9A-F]+", said), said
        assert "outbox-relay init" in said or "CREATE PUBLICATION" in said or "slot advance" in said, said
    assert outbox.confirmed() < end
    assert [event for event, _ in arrived(outbox)] == before
    return "exit 66, nothing confirmed past it"


@scenario(row=32, title="the publication is dropped in mid-stream, PostgreSQL 14 to 17")
def publication_dropped(world):
    return "; ".join(f"{version}: {_publication_dropped(world, version)}" for version in (14, 15, 17))


@scenario(row=33, title="the publication is dropped in mid-stream, PostgreSQL 18, which passes over it")
def publication_dropped_silently(world):
    return _publication_dropped(world, 18)


@scenario(row=34, title="the table is taken out of the publication")
def table_leaves_publication(world):
    outbox = world.outbox(world.pg(17))
    with outbox.relay() as relay:
        relay.wait_ready()
        outbox.sql(f"ALTER PUBLICATION {outbox.name} DROP TABLE outbox_events")
        began = time.monotonic()
        relay.wait_for(lambda: relay.metric("outbox_relay_publication_ok") == 0, 30, "the metric shows it")
        took = time.monotonic() - began
        relay.wait_for(lambda: relay.ready()[0] == 503, 5, "unready")
        remedy = f'ALTER PUBLICATION "{outbox.name}" ADD TABLE "public"."outbox_events";'
        assert remedy in relay.ready()[1]
        outbox.sql(remedy)
        outbox.insert("key-1")
        relay.wait_ready()
        wait_all(outbox, relay)
    assert len(arrived(outbox)) == 1
    return f"seen after {took:.1f} s"


@scenario(row=35, title="publication names with upper case, commas and quotes")
def publication_names(world):
    outbox = world.outbox(world.pg(17))
    outbox.sql(f"DROP PUBLICATION {outbox.name}")
    events = []
    for number, name in enumerate(['Outbox', 'a,b', 'say "outbox"', "it's", "naïve — ö", '"', "back\\slash"]):
        outbox.sql("CREATE PUBLICATION \"{}\" FOR TABLE outbox_events WITH (publish = 'insert')".format(
            name.replace('"', '""')))
        with outbox.relay(source__publication__name=name) as relay:
            events += outbox.insert(f"key-{number % 3}")
            wait_all(outbox, relay)
            assert relay.terminate() == 0
    assert [event for event, _ in arrived(outbox)] == events
    return f"{len(events)} names"


# The slot

@scenario(row=36, title="the slot is dropped while the relay is down")
def slot_dropped(world):
    outbox = world.outbox(world.pg(15))
    for create in ("never", "if_missing"):
        with outbox.relay(source__slot__create=create) as relay:
            relay.wait_streaming()
            delivered = outbox.insert("key-1")
            wait_all(outbox, relay)
            assert relay.terminate() == 0
            outbox.sql("SELECT pg_drop_replication_slot(%s)", [outbox.name])
            missed = outbox.insert("key-1")
            if create == "never":
                assert relay.start().wait_exit() == 66
                assert "does not exist" in relay.stderr() and "table alone" in relay.stderr()
                assert outbox.slot() is None
        ids = [event for event, _ in arrived(outbox)]
        assert ids[-1:] == delivered and missed[0] not in ids
        if create == "never":
            outbox.create_slot()
    return "refused"


@scenario(row=37, title="the slot is advanced, or made anew, by somebody else")
def slot_moved(world):
    outbox = world.outbox(world.pg(15))
    said = {}
    for case in ("advanced", "made anew"):
        with outbox.relay() as relay:
            relay.wait_streaming()
            outbox.insert("key-1")
            wait_all(outbox, relay)
            cut_off(outbox, relay)
            before = outbox.slot()["confirmed_flush_lsn"]
            skipped = outbox.insert("key-1")
            if case == "advanced":
                outbox.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [outbox.name])
            else:
                outbox.sql("SELECT pg_drop_replication_slot(%s)", [outbox.name])
                outbox.create_slot()
            after = outbox.slot()["confirmed_flush_lsn"]
            relay.resume()
            assert relay.wait_exit() == 65, case
            said[case] = relay.stderr()
            assert before in said[case] and after in said[case], said[case]
            assert skipped[0] not in [event for event, _ in arrived(outbox)]
    return "refused, with the span"


def _overflow(pg):
    for _ in range(4):
        pg.sql("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 16777216))")
        pg.sql("SELECT pg_switch_wal()")
    pg.psql("CHECKPOINT;", deadline_s=40)  # With a deadline: that it ends is part of the claim.


@scenario(row=38, title="max_slot_wal_keep_size is exceeded while Kafka is down and the relay connected")
def slot_lost_while_connected(world):
    pg = world.pg(15, fresh=True, max_slot_wal_keep_size="32MB", min_wal_size="32MB", max_wal_size="64MB")
    kafka = world.kafka(fresh=True)
    outbox = world.outbox(pg, kafka=kafka)
    with outbox.relay(sink__kafka__properties={"queue.buffering.max.messages": 100}) as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        kafka.pause()
        try:
            missed = outbox.insert(*(f"key-{number % 5}" for number in range(1000)))
            relay.wait_state("blocked")
            pg.sql("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 16777216))")
            # The alert comes first: how much may still be written.
            relay.wait_for(lambda: relay.metric("outbox_relay_slot_safe_wal_bytes") is not None
                           and relay.metric("outbox_relay_slot_safe_wal_bytes") < 48 << 20, 30, "the metric warns")
            # The server ends the walsender at this checkpoint, and cannot while the relay holds its last words up.
            began = time.monotonic()
            _overflow(pg)
            checkpoint_s = time.monotonic() - began
            assert outbox.slot()["wal_status"] == "lost"
            assert relay.wait_exit(60) == 65, relay.stderr()
            said = relay.stderr()
            assert "is lost" in said and "table alone" in said and "max_slot_wal_keep_size" in said, said
        finally:
            kafka.resume()
    assert checkpoint_s < 30
    return f"exit 65; the checkpoint took {checkpoint_s:.1f} s; {len(missed)} events are in the table alone"


@scenario(row=39, title="idle_replication_slot_timeout costs a stopped relay its slot, PostgreSQL 18")
def slot_idle_for_too_long(world):
    # The setting is in minutes until a checkpoint looks; the smallest unit that the server takes is a second.
    pg = world.pg(18, fresh=True)
    outbox = world.outbox(pg)
    pg.set(idle_replication_slot_timeout="1s")
    code, out, err = run_command(["check", "--connect"], outbox.config)
    assert "idle_replication_slot_timeout is 1s" in out + err, out + err
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        assert relay.terminate() == 0
        assert "idle_replication_slot_timeout" in relay.stderr() or code == 0
        missed = outbox.insert("key-1")
        eventually(lambda: pg.sql("CHECKPOINT") == [] and outbox.slot()["wal_status"] == "lost", 20, "the slot is lost",
                   poll_s=0.3)
        assert relay.start().wait_exit() == 65
        said = relay.stderr()
        assert "idle_timeout" in said and "idle_replication_slot_timeout" in said, said
        assert missed[0] not in [event for event, _ in arrived(outbox)]
    return "exit 65, warned before"


# The server

@scenario(row=40, title="wal_level is lowered")
def wal_level_lowered(world):
    pg = world.pg(15, fresh=True)
    outbox = world.outbox(pg)
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        assert relay.terminate() == 0
    # With a logical slot the server itself refuses to start so; a fresh one has none.
    bare = world.pg(15, fresh=True, wal_level="replica")
    target = Outbox(bare, outbox.name, None, slot=False)
    with target.relay() as relay:
        assert relay.wait_exit() == 78
        assert "wal_level" in relay.stderr() and "logical" in relay.stderr()
    pg.stop()
    pg.set(wal_level="replica", wal_sender_timeout="10s")
    try:
        pg.start(deadline_s=15)
    except (RuntimeError, TimeoutError):
        assert "wal_level" in pg.log_text()
    return "exit 78"


@scenario(row=41, title="max_wal_senders, max_replication_slots and max_connections are exhausted")
def places_exhausted(world):
    pg = world.pg(15, fresh=True, max_wal_senders=2, max_replication_slots=3, max_connections=12,
                  superuser_reserved_connections=3)
    outbox = watch(world.outbox(pg, user="relay"))
    pg.sql("CREATE ROLE relay LOGIN REPLICATION")
    outbox.insert("key-1")
    takers = [_WalsenderTaker(pg), _WalsenderTaker(pg)]
    with outbox.relay() as relay:
        relay.wait_log("max_wal_senders|wal senders|replication connections|standby connections", 20)
        assert relay.live()[0] == 200 and relay.ready()[0] == 503 and relay.running
        for taker in takers:
            taker.close()
        relay.wait_streaming()
        wait_all(outbox, relay)
        assert relay.terminate() == 0

    # Walsenders do not count among max_connections: the stream goes on, only the looks at the catalog fail.
    idle = [pg.connect("postgres", user="relay") for _ in range(9)]
    with outbox.relay() as relay:
        outbox.insert("key-2")
        wait_all(outbox, relay)
        eventually(lambda: re.search("connection slots are reserved|too many clients", pg.log_text()), 20, "a look fails")
        assert relay.live()[0] == 200 and relay.metric("outbox_relay_up_state", state="streaming") == 1
        for connection in idle:
            connection.close()
        outbox.insert("key-3")
        wait_all(outbox, relay)
        assert relay.metric("outbox_relay_source_reconnects_total") == 0
        assert relay.terminate() == 0

    pg.sql("SELECT pg_create_logical_replication_slot('third', 'pgoutput')")
    code, out, err = run_command(["init"], outbox.changed_config(source__slot__name="fourth"))
    assert code != 0 and "max_replication_slots" in out + err, (code, out, err)
    return check_delivered(outbox)


class _WalsenderTaker:
    """One of max_wal_senders: a replication connection that does nothing."""

    def __init__(self, pg):
        from psycopg2.extras import LogicalReplicationConnection
        import psycopg2
        self._connection = psycopg2.connect(pg.dsn(), connection_factory=LogicalReplicationConnection)

    def close(self):
        self._connection.close()


@scenario(row=42, title="the role loses REPLICATION, its password is rotated, pg_hba.conf rejects it")
def role_refused(world):
    pg = world.pg(15, fresh=True)
    outbox = watch(world.outbox(pg, user="relay"))
    pg.sql("CREATE ROLE relay LOGIN REPLICATION")
    pg.require_password("relay", "swordfish one")
    directory = make_directory("secret")
    file = directory / "password"

    def write(password):
        file.touch(mode=0o600)
        file.write_text(password + "\n")

    write("swordfish one")
    try:
        with outbox.relay(source__password_file=str(file)) as relay:
            relay.wait_streaming()
            outbox.insert("key-1")
            wait_all(outbox, relay)

            def break_and_mend(breaking, mending, said):
                breaking()
                pg.sql("SELECT pg_terminate_backend(%s)", [pg.walsender_pid(outbox.name)])
                relay.wait_log(said, 20)
                assert relay.running and relay.live()[0] == 200
                mending()
                outbox.insert("key-1")
                relay.wait_streaming()
                wait_all(outbox, relay)

            break_and_mend(lambda: pg.sql("ALTER ROLE relay PASSWORD 'swordfish two'"), lambda: write("swordfish two"),
                           "password authentication failed")
            hba = list(pg.hba)
            break_and_mend(lambda: pg.set_hba([f"local all relay reject", "host all relay 127.0.0.1/32 reject"] + hba),
                           lambda: pg.set_hba(hba), "pg_hba.conf rejects")
            break_and_mend(lambda: pg.sql("ALTER ROLE relay NOREPLICATION"), lambda: pg.sql("ALTER ROLE relay REPLICATION"),
                           "replication")
            said = relay.stderr()
            assert "swordfish" not in said and "swordfish" not in relay.get("/metrics")[1]
    finally:
        remove_directory(directory)
    return check_delivered(outbox)


@scenario(row=43, title="a transaction is open when the slot is made")
def slot_creation_waits(world):
    pg = world.pg(15)
    outbox = world.outbox(pg, slot=False)
    outbox.sql("CREATE TABLE other (id int)")
    holder = pg.connect(outbox.name, application_name="month end")
    with holder.cursor() as cursor:
        cursor.execute("INSERT INTO other VALUES (1)")
    pid = holder.info.backend_pid
    try:
        with outbox.relay(source__slot__create="if_missing") as relay:
            relay.wait_log(rf"wait.*{pid}.*month end", 15)
            assert relay.live()[0] == 200 and relay.ready()[0] == 503
            holder.commit()
            relay.wait_streaming()
            outbox.insert("key-1")
            wait_all(outbox, relay)
    finally:
        holder.close()
    assert len(arrived(outbox)) == 1
    return "named the backend, alive"


@scenario(row=44, title="a pooler stands in between")
def pooler_in_between(world):
    pg = world.pg(15)
    outbox = world.outbox(pg)
    directory = make_directory("pgbouncer", service_account())
    port = free_port()
    ini = directory / "pgbouncer.ini"
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
    assert program, "pgbouncer is missing: tests/support/install_packages.sh tests"
    found = {}
    for ignored in ("extra_float_digits", "extra_float_digits,options"):
        ini.write_text(f"[databases]\n* = host={pg.socket_dir} port={pg.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                       f"listen_port = {port}\nauth_type = any\nunix_socket_dir =\n"
                       f"ignore_startup_parameters = {ignored}\n")
        bouncer = Process([program, ini], directory / "out", account=service_account())
        try:
            eventually(lambda: bouncer.log_text().count("process up") == len(found) + 1, 10, "pgbouncer is up",
                       unless=bouncer.check_running)
            with outbox.relay(source__host="127.0.0.1", source__port=port) as relay:
                code = relay.wait_exit()
                assert code == 78 and "looks like a connection pooler" in relay.stderr(), (ignored, code, relay.stderr())
            found[ignored] = code
        finally:
            bouncer.kill()
    remove_directory(directory)
    return "exit 78, recognised"
