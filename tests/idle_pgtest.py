"""A quiet outbox beside busy tables does not pin WAL (B1), on every version.

The relay's part is to confirm, within two of its status intervals. The server's part is restart_lsn, from which WAL is
kept: it follows to a record that is written at each checkpoint and, without one, by the background writer every 15 s,
or 25 s where that naps. No checkpoint is asked for here. The servers run at the same time, since most of the test is
that wait.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import POSTGRES_VERSIONS
from support.outbox import Outbox
from support.postgres import Postgres
from support.wait import eventually

TWO_STATUS_INTERVALS_S = 20
SERVERS_RECORD_S = 25
MEGABYTES = {15: 300, 18: 300}  # 60 elsewhere.
RETAINED_LIMIT = 4 << 20


def retained(pg, slot):
    return int(pg.value("SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = %s", [slot]))


def write_rows(pg, database, megabytes):
    """Into a table that no publication knows; they do not compress."""
    pg.sql("CREATE TABLE IF NOT EXISTS busy (id bigint, filler text)", db=database)
    block = pg.value("SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 31)")
    for _ in range(megabytes):
        pg.sql("INSERT INTO busy SELECT i, %s FROM generate_series(1, 960) i", [block], db=database)


def run_busy(version):
    """Megabytes kept right after the writing, and the seconds until all is confirmed, and until little is kept."""
    megabytes = MEGABYTES.get(version, 60)
    with Postgres(version, settings={"max_wal_size": "2GB"}) as pg:
        outbox = Outbox(pg, "idle")
        pg.create_database("neighbour")
        with outbox.relay() as relay:
            relay.wait_streaming()
            first = outbox.insert("the only one")
            outbox.wait_on_stdout(relay, first)
            before = outbox.written()
            write_rows(pg, "idle", megabytes // 2)
            write_rows(pg, "neighbour", megabytes // 2)
            assert outbox.written() - before > megabytes * 1_000_000
            started, kept, end = time.monotonic(), retained(pg, "idle") / 1e6, outbox.written()
            eventually(lambda: outbox.confirmed() >= end, 60, "all is confirmed")
            confirmed_after = time.monotonic() - started
            eventually(lambda: retained(pg, "idle") < RETAINED_LIMIT, 60, "little WAL is kept", poll_s=0.1)
            freed_after = time.monotonic() - started
            assert outbox.ids_on_stdout(relay) == first
            assert relay.terminate() == 0
        return kept, confirmed_after, freed_after


@pytest.fixture(scope="module")
def busy():
    with ThreadPoolExecutor(len(POSTGRES_VERSIONS)) as pool:
        return {version: pool.submit(run_busy, version) for version in POSTGRES_VERSIONS}


@pytest.mark.parametrize("version", POSTGRES_VERSIONS)
def test_wal_written_beside_a_quiet_outbox_is_confirmed_and_freed(busy, version):
    kept, confirmed_after, freed_after = busy[version].result()
    print(f"PostgreSQL {version}: {kept:.0f} MB kept when the writing ended; confirmed after {confirmed_after:.1f} s, "
          f"under 4 MB after {freed_after:.1f} s")
    assert confirmed_after < TWO_STATUS_INTERVALS_S
    assert freed_after < SERVERS_RECORD_S + TWO_STATUS_INTERVALS_S
