"""Rows 14 to 26: PostgreSQL stops, dies, falls silent, garbles, crawls; and large and many transactions."""

import os
import threading
import time
from pathlib import Path

from faults.scenario import scenario
from faults.wire import Wire, cut, flip_in_messages, half_close, reset
from faults.witness import arrived, check_delivered, watch
from support.load import Load
from support.netns import Netns
from support.postgres import Postgres
from support.relay import RelayProcess, run_command

MEGABYTE = 1 << 20
# The address sanitizer keeps what was freed, 256 MB of it by default, which is no memory of the program.
NO_QUARANTINE = {"ASAN_OPTIONS": "quarantine_size_mb=1"}


def rss(relay):
    return int(Path(f"/proc/{relay.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class RssSampler:
    """The peak of a process's memory while the block lasts."""

    def __init__(self, relay):
        self._relay, self._done = relay, threading.Event()
        self.peak = 0
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _sample(self):
        while not self._done.wait(0.05):
            try:
                self.peak = max(self.peak, rss(self._relay))
            except (FileNotFoundError, ProcessLookupError, IndexError):
                pass  # Between a kill and the next start.


def wait_all(outbox, relay, deadline_s=60):
    outbox.wait_confirmed(relay, deadline_s)


def insert_rows(outbox, count, payload="{}"):
    """In one transaction, by the server itself."""
    outbox.sql("INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)"
               " SELECT 'order', 'key-' || n %% 50, 'OrderPlaced', %s FROM generate_series(1, %s) n", [payload, count])


def received(relay, kind="insert"):
    return relay.metric("outbox_relay_source_messages_total", type=kind) or 0


# It stops

@scenario(row=14, title="PostgreSQL stops fast under an idle relay")
def stop_while_idle(world):
    found = []
    for version in (15, 18):
        pg = world.pg(version, fresh=True)
        outbox = watch(world.outbox(pg))
        with outbox.relay() as relay:
            relay.wait_streaming()
            outbox.insert("key-1")
            wait_all(outbox, relay)
            asked, replied = received(relay, "keepalive"), relay.metric("outbox_relay_confirmations_total")
            took = pg.stop("fast", deadline_s=20)
            relay.wait_for(lambda: relay.ready()[0] == 503, 10, "unready")
            asked, replied = received(relay, "keepalive") - asked, relay.metric("outbox_relay_confirmations_total") - replied
            assert took < 1, f"PostgreSQL {version} took {took:.2f} s"
            assert asked < 200 and replied < 10, f"a storm: {asked} keepalives, {replied} replies"
            pg.start()
            outbox.insert("key-1")
            relay.wait_streaming()
            wait_all(outbox, relay)
        check_delivered(outbox)
        found.append(f"{version}: {took:.2f} s, {asked:.0f} keepalives, {replied:.0f} replies")
    return "; ".join(found)


@scenario(row=15, title="PostgreSQL stops fast while Kafka is down and rows are on the way")
def stop_while_blocked(world):
    pg, kafka = world.pg(15, fresh=True), world.kafka(fresh=True)
    outbox = watch(world.outbox(pg, kafka=kafka))
    with outbox.relay(sink__kafka__properties={"queue.buffering.max.messages": 100}) as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        kafka.pause()
        try:
            insert_rows(outbox, 50_000)
            insert_rows(outbox, 1000)
            relay.wait_state("blocked")
            took = pg.stop("fast", deadline_s=40)
        finally:
            kafka.resume()
        pg.start()
        relay.wait_streaming(60)
        wait_all(outbox, relay, 90)
    assert took < 20
    # The first transaction was in flight while its acknowledgements could not come.
    return f"stopped in {took:.1f} s; {check_delivered(outbox, duplicates=1000)}"


@scenario(row=16, title="PostgreSQL stops immediately, and its postmaster is killed, in mid-stream")
def server_crashes(world):
    found = []
    for version in (15, 18):
        pg = world.pg(version, fresh=True)
        outbox = watch(world.outbox(pg, partitions=3))
        with outbox.relay() as relay:
            relay.wait_streaming()
            for number in range(2 * world.cycles + 1):
                insert_rows(outbox, 10_000)
                before = received(relay)
                relay.wait_for(lambda: received(relay) > before, 20, "in mid-stream")
                pg.stop("immediate") if number % 2 else pg.kill()
                pg.start()
                relay.wait_streaming()
                outbox.insert("key-1", "key-2")
            wait_all(outbox, relay)
        found.append(f"{version}: {check_delivered(outbox, duplicates=0)}")
    return "; ".join(found)


def _restarts(world, version, **config):
    """Repeats over restarts of the server alone, and of server and relay."""
    pg = world.pg(version, fresh=True)
    outbox = watch(world.outbox(pg))
    code, _, stderr = run_command(["init"], outbox.changed_config(**config))  # Writes the first checkpoint.
    assert code == 0, stderr
    with outbox.relay(**config) as relay:
        relay.wait_streaming()
        for number in range(20):
            outbox.insert(f"key-{number % 3}")
        wait_all(outbox, relay)
        pg.restart("fast")
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        alone = len(arrived(outbox)) - len(set(arrived(outbox)))
        assert relay.terminate() == 0
        pg.restart("fast")
        relay.start().wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
    both = len(arrived(outbox)) - len(set(arrived(outbox))) - alone
    check_delivered(outbox, duplicates=100)
    return alone, both


@scenario(row=17, title="PostgreSQL 14 to 16 restart cleanly and forget what was confirmed")
def clean_restart(world):
    found = []
    for version in (14, 15, 16):
        alone, both = _restarts(world, version)
        assert alone == 0, f"PostgreSQL {version}: {alone} repeats while the relay lived"
        assert both <= 21, "no more than all that the slot had not saved"
        found.append(f"{version}: {alone} repeats, {both} where the relay was restarted too")
    return "; ".join(found)


@scenario(row=17, title="the same with a checkpoint topic", mode="checkpoint")
def clean_restart_with_checkpoint(world):
    for version in (14, 16):
        topic = f"checkpoint-{version}-{world.seed}"
        world.kafka().create_topic(topic, config={"cleanup.policy": "compact"})
        repeats = _restarts(world, version, delivery__checkpoint__topic=topic)
        assert repeats == (0, 0), f"PostgreSQL {version}: {repeats}"
    return "no repeats"


@scenario(row=18, title="the walsender is terminated in mid-transaction, again and again")
def walsender_terminated(world):
    pg = world.pg(15)
    outbox = watch(world.outbox(pg, partitions=3))
    rounds = 8 * world.cycles
    with outbox.relay() as relay:
        relay.wait_streaming()
        for _ in range(rounds):
            before = received(relay)
            insert_rows(outbox, world.chance.randrange(500, 3000))
            relay.wait_for(lambda: received(relay) > before, 20, "in mid-transaction")
            pid = pg.walsender_pid(outbox.name)
            pg.sql("SELECT pg_terminate_backend(%s)", [pid])
            relay.wait_for(lambda: pg.walsender_pid(outbox.name) not in (None, pid), 20, "a new walsender")
        wait_all(outbox, relay)
    return f"{rounds} times; {check_delivered(outbox)}"


# It falls silent

@scenario(row=19, title="the walsender is stopped (SIGSTOP)")
def walsender_frozen(world):
    pg = world.pg(15)
    outbox = watch(world.outbox(pg))
    with outbox.relay(source__libpq={"options": "-c wal_sender_timeout=3s"}) as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        pid = pg.walsender_pid(outbox.name)
        heard = relay.metric("outbox_relay_last_source_message_timestamp_seconds")
        began = time.monotonic()
        with pg.paused(pid):
            outbox.insert("key-1", "key-2")
            relay.wait_for(lambda: relay.metric("outbox_relay_source_connected") == 0, 20, "our own timeout")
            noticed = time.monotonic() - began
            assert relay.metric("outbox_relay_last_source_message_timestamp_seconds") - heard < 4
            # The slot is still held by the walsender that cannot end.
            relay.wait_log(f"in use by PID {pid}", 20)
        relay.wait_streaming(30)
        wait_all(outbox, relay)
    return f"noticed after {noticed:.1f} s; {check_delivered(outbox)}"


@scenario(row=20, title="the network swallows everything, without an RST, and comes back")
def network_blackhole(world):
    with Netns() as net, Postgres(15, netns=net) as pg:
        outbox = watch(world.outbox(pg))
        options = {"source__host": pg.host, "source__libpq": {"options": "-c wal_sender_timeout=4s"}}
        with outbox.relay(**options) as relay:
            relay.wait_streaming()
            with Load(outbox, world.seed, rows=5, rows_per_second=500):
                for _ in range(world.cycles):
                    began = time.monotonic()
                    with net.silent():
                        relay.wait_for(lambda: relay.metric("outbox_relay_source_connected") == 0, 30, "the timeout")
                        noticed = time.monotonic() - began
                        relay.wait_for(lambda: time.monotonic() - began > 8, 9, "silence for a while")
                    healed = time.monotonic()
                    relay.wait_streaming(30)
                    resumed = time.monotonic() - healed
            wait_all(outbox, relay)
    assert resumed < 30
    return f"noticed after {noticed:.1f} s, resumed {resumed:.1f} s after the return"


# It garbles

@scenario(row=21, title="RST, half-close and a frame cut short, at any byte of the stream")
def connection_breaks(world):
    pg = world.pg(15)
    outbox = watch(world.outbox(pg, partitions=3))
    kinds = [reset, half_close, cut]
    rounds = 9 * world.cycles
    with Wire(pg) as wire, outbox.relay(**wire.source()) as relay:
        for number in range(rounds):
            relay.wait_streaming()
            at = world.chance.randrange(1, 60_000)
            wire.arm(kinds[number % 3], at)
            insert_rows(outbox, 1500)
            relay.wait_for(lambda: wire.done, 30, f"{kinds[number % 3].__name__} at byte {at}")
        wait_all(outbox, relay)
        reconnects = relay.metric("outbox_relay_source_reconnects_total")
        assert reconnects >= rounds
        wire.check_confirmations(outbox)
    return f"{rounds} times; {check_delivered(outbox)}"


@scenario(row=22, title="bits flip in the structure of pgoutput messages")
def bits_flip(world):
    pg = world.pg(15)
    outbox = watch(world.outbox(pg, partitions=3))
    flips, seen = 0, []
    for _ in range(3 * world.cycles):
        with Wire(pg) as wire, outbox.relay(**wire.source()) as relay:
            for _ in range(3):  # Five in a row end the relay, by its documented code.
                relay.wait_streaming()
                wire.arm(flip_in_messages(world.chance), 0)
                insert_rows(outbox, 50)
                relay.wait_for(lambda: wire.done, 30, "a bit has been flipped")
                flips += 1
                seen.append(wire.what)
                wait_all(outbox, relay)
            try:
                wire.check_confirmations(outbox)
                check_delivered(outbox)
            except AssertionError as problem:
                raise AssertionError(f"{problem}; flipped: {seen[-3:]}") from problem
    return f"{flips} flips; {check_delivered(outbox)}"


# It crawls

@scenario(row=23, title="a link of 1 kB/s and 2 s of round trip")
def slow_link(world):
    pg = world.pg(15)
    outbox = watch(world.outbox(pg))
    with Wire(pg) as wire:
        wire.delay_s = 1.0
        with outbox.relay(**wire.source("-c wal_sender_timeout=12s")) as relay:
            relay.wait_streaming(60)
            pid = pg.walsender_pid(outbox.name)
            wire.bytes_per_second = 1000
            insert_rows(outbox, 80)
            wait_all(outbox, relay, 90)
            assert pg.walsender_pid(outbox.name) == pid, "the status updates came in time"
            assert relay.metric("outbox_relay_source_reconnects_total") == 0
            wire.check_confirmations(outbox)
            wire.bytes_per_second, wire.delay_s = None, 0
    return check_delivered(outbox)


# It is large, or many

@scenario(row=24, title="one huge transaction: flat memory, and a kill in the middle")
def huge_transaction(world):
    rows = 300_000 if world.cycles == 1 else 10_000_000
    pg = world.pg(15, max_wal_size="4GB")
    outbox = world.outbox(pg, partitions=3)
    before = outbox.confirmed()
    with RelayProcess(outbox.config, environment=NO_QUARANTINE) as relay, RssSampler(relay) as memory:
        relay.wait_streaming()
        base = rss(relay)
        insert_rows(outbox, rows)
        end = outbox.written()
        relay.wait_for(lambda: received(relay) > rows / 3, 300, "in the middle")
        assert before <= outbox.confirmed() < end
        relay.kill9()
        relay.start().wait_streaming(60)
        relay.wait_for(lambda: received(relay) > rows / 3, 300, "in the middle again")
        pid = pg.walsender_pid(outbox.name)
        pg.sql("SELECT pg_terminate_backend(%s)", [pid])
        assert outbox.confirmed() < end, "it is confirmed whole, at its end"
        relay.wait_streaming(60)
        wait_all(outbox, relay, 600)
        suppressed = relay.metric("outbox_relay_events_total", outcome="duplicate_suppressed")
        grown = memory.peak - base
        assert suppressed > 0, "what this process had delivered before the cut it does not send again"
    records = sum(world.kafka().high_watermarks(outbox.name).values())
    unique = _count_unique(world.kafka(), outbox.name)
    assert unique == rows, f"{unique} of {rows} arrived"
    repeats = records - rows
    assert repeats <= rows, "the kill repeats at most what came before it"
    assert grown < 120 * MEGABYTE, f"grew by {grown / MEGABYTE:.0f} MB"
    return f"{rows} rows, peak RSS {memory.peak / MEGABYTE:.0f} MB (+{grown / MEGABYTE:.0f}), {repeats} repeats by the kill"


def _count_unique(kafka, topic):
    """Without keeping ten million records."""
    ids = set()
    wanted = sum(kafka.high_watermarks(topic).values())
    seen = 0
    with kafka.reader(topic) as reader:
        take = reader._take

        def keep(message):
            nonlocal seen
            take(message)
            for record in reader.records:
                ids.add(bytes.fromhex(record.header("id").decode().replace("-", "")))
                seen += 1
            reader.records.clear()

        reader._take = keep
        reader.read(lambda _: seen >= wanted, deadline_s=600)
    return len(ids)


@scenario(row=25, title="a row of 100 MB halts, by name, within a bound of memory")
def huge_row(world):
    megabytes = 100
    pg = world.pg(15)
    outbox = watch(world.outbox(pg))
    with RelayProcess(outbox.config, environment=NO_QUARANTINE) as relay:
        relay.wait_streaming()
        outbox.insert("key-1")
        wait_all(outbox, relay)
        base = rss(relay)
        with RssSampler(relay) as memory:
            xid, = outbox.sql("INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)"
                                " SELECT 'order', 'key-1', 'OrderPlaced', to_jsonb(string_agg(md5(n::text), ''))"
                                " FROM generate_series(1, %s) n RETURNING xmin", [megabytes * MEGABYTE // 32])[0]
            end = outbox.written()
            relay.wait_state("halted", 60)
            reason = relay.ready()[1]
        assert f"transaction {xid} " in reason and "insert number 1" in reason and outbox.confirmed() < end, reason
        assert relay.live()[0] == 200
        grown = memory.peak - base
        assert grown < 3.5 * megabytes * MEGABYTE, f"grew by {grown / MEGABYTE:.0f} MB"
    return f"halted; peak RSS grew by {grown / MEGABYTE:.0f} MB, {grown / MEGABYTE / megabytes:.1f} times the row"


@scenario(row=26, title="as many tiny transactions as the server commits")
def status_is_rate_limited(world):
    pg = world.pg(15, synchronous_commit="off")
    outbox = watch(world.outbox(pg, partitions=3))
    with outbox.relay() as relay:
        relay.wait_streaming()
        sent, committed_before = relay.metric("outbox_relay_confirmations_total"), received(relay, "commit")
        began = time.monotonic()
        with Load(outbox, world.seed, writers=4):
            relay.wait_for(lambda: time.monotonic() - began > 5 * world.cycles, 6 * world.cycles, "load for a while")
            took = time.monotonic() - began
            sent = relay.metric("outbox_relay_confirmations_total") - sent
            transactions = received(relay, "commit") - committed_before
        wait_all(outbox, relay)
    assert transactions > 1000, "there was load"
    assert sent / took <= 10.5, f"{sent / took:.1f} status updates a second"
    return f"{transactions / took:.0f} transactions and {sent / took:.1f} status updates a second; {check_delivered(outbox)}"
