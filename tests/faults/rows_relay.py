"""Rows 1 to 13: the relay is killed, stopped, frozen, doubled, starved."""

import os
import resource
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

from faults.checker import check
from faults.confirmations import Confirmations
from faults.proxy import Proxy, postgres_tap
from faults.scenario import AT_LEAST_ONCE, EXACTLY_ONCE, scenario
from support.load import transactions_of
from support.process import make_directory, remove_directory
from support.relay import RelayProcess, run_command
from support.wait import eventually
from support.steadfast_writer import SteadfastWriter


# The walsender gives the relay up within a second of silence.
IMPATIENT_SERVER = {"source__libpq": {"options": "-c wal_sender_timeout=1s"}}


def init(outbox):
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
    return outbox


def pause(world, least, most):
    """The moment of the next fault, at random."""
    threading.Event().wait(world.chance.uniform(least, most))


def killed_again_and_again(world, mode):
    pg, kafka = world.pg(15), world.kafka()
    outbox = world.outbox(pg, kafka, partitions=3, mode=mode)
    if mode == EXACTLY_ONCE:
        init(outbox)
    witness = outbox.name + "_witness"
    outbox.create_slot(witness)
    confirmations = Confirmations(kafka, outbox.name)
    proxy = world.enter(Proxy((pg.host, pg.port), on_up=postgres_tap(confirmations.on_status)))
    outbox.config["source"] |= {"host": "127.0.0.1", "port": proxy.port}
    kills = 20 * world.cycles
    with outbox.relay(**IMPATIENT_SERVER) as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for _ in range(kills):
                relay.wait_state("streaming", 30)
                pause(world, 0, 0.6)
                relay.kill9()
                relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    records = outbox.in_kafka(deadline_s=120)
    verdict = check(writer, records, duplicates=0 if mode == EXACTLY_ONCE else None)
    verdict.findings.append(confirmations.check(transactions_of(outbox, witness), records))
    return f"{kills} kills; {verdict.assert_kept()}"


@scenario(row=1, title="kill -9 under load, again and again")
def relay_killed(world):
    return killed_again_and_again(world, AT_LEAST_ONCE)


@scenario(row=1, title="kill -9 under load, again and again", mode=EXACTLY_ONCE)
def relay_killed_exactly_once(world):
    return killed_again_and_again(world, EXACTLY_ONCE)


@scenario(row=2, title="SIGTERM under load with a healthy Kafka repeats nothing")
def relay_stopped(world):
    outbox = world.outbox(partitions=3)
    stops = 5 * world.cycles
    with outbox.relay() as relay:
        with SteadfastWriter(outbox, world.seed, rows=20, rows_per_second=2000) as writer:
            for _ in range(stops):
                relay.wait_state("streaming")
                pause(world, 0, 0.5)
                assert relay.terminate() == 0, relay.stderr()
                relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    return f"{stops} stops; {check(writer, outbox.in_kafka(), duplicates=0).assert_kept()}"


@scenario(row=3, title="SIGTERM with Kafka dead: gives up at its grace with 75, confirms nothing")
def relay_stopped_without_kafka(world):
    kafka = world.kafka()
    outbox = world.outbox(kafka=kafka)
    with outbox.relay(shutdown__grace="1s") as relay:
        relay.wait_streaming()
        outbox.wait_confirmed(relay)
        kafka.pause()
        try:
            before = outbox.confirmed()
            events = outbox.insert(*range(100))
            end = outbox.written()
            relay.wait_for(lambda: relay.metric("outbox_relay_inflight_events") > 0, 20, "records are on the way")
            assert relay.terminate() == 75
            assert before <= outbox.confirmed() < end
        finally:
            kafka.resume()
        relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    assert set(outbox.ids_in_kafka()) == set(events)
    return "75 at the grace, nothing confirmed, all delivered after the restart"


@scenario(row=4, title="SIGSTOP for longer than wal_sender_timeout, then CONT")
def relay_frozen(world):
    outbox = world.outbox(partitions=3)
    with outbox.relay(**IMPATIENT_SERVER) as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for _ in range(2 * world.cycles):
                relay.wait_state("streaming")
                pause(world, 0.2, 0.6)
                relay.pause()
                relay.wait_for(lambda: not outbox.slot()["active"], 20, "the server has given up the walsender")
                relay.resume()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    return check(writer, outbox.in_kafka()).assert_kept()


def taken_over_by_another(world, mode):
    """The frozen one wakes up while its records of before may still be on their way."""
    kafka = world.kafka()
    outbox = world.outbox(kafka=kafka, partitions=3, mode=mode)
    if mode == EXACTLY_ONCE:
        init(outbox)
    with outbox.relay(**IMPATIENT_SERVER) as first:
        with SteadfastWriter(outbox, world.seed, rows_per_second=100) as writer:
            first.wait_streaming()
            pause(world, 0.3, 1)
            first.pause()
            first.wait_for(lambda: not outbox.slot()["active"], 20, "the server has given up the walsender")
            with outbox.relay() as second:
                second.wait_streaming()
                pause(world, 0.3, 1)
                first.resume()
                first.wait_state("standby", 60)
                pause(world, 0.3, 1)
                assert second.terminate() == 0, second.stderr()
        first.wait_streaming(60)
        outbox.wait_confirmed(first, 60)
        assert first.terminate() == 0
    return check(writer, outbox.in_kafka(), duplicates=0 if mode == EXACTLY_ONCE else None)


@scenario(row=5, title="frozen, taken over by another, woken up: what the zombie adds is a repeat")
def zombie(world):
    verdict = taken_over_by_another(world, AT_LEAST_ONCE)
    # Without fencing the records of the zombie may come late; that window is documented, and every event is there.
    verdict.findings = [each for each in verdict.findings if each.invariant != "I3"]
    return verdict.assert_kept()


@scenario(row=5, title="frozen, taken over by another, woken up: the zombie is fenced", mode=EXACTLY_ONCE)
def zombie_exactly_once(world):
    return taken_over_by_another(world, EXACTLY_ONCE).assert_kept()


@scenario(row=6, title="two relays, one slot: the second stands by and takes over after kill -9")
def standby_takes_over(world):
    outbox = world.outbox(partitions=3)
    with outbox.relay() as first:
        first.wait_streaming()
        with outbox.relay() as second, SteadfastWriter(outbox, world.seed) as writer:
            second.wait_state("standby")
            pause(world, 0.2, 1)
            first.kill9()
            second.wait_state("streaming", 5)
        with_all_confirmed(outbox)
    return check(writer, outbox.in_kafka()).assert_kept()


def with_all_confirmed(outbox, **changes):
    with outbox.relay(**changes) as relay:
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0


@contextmanager
def limit_for_children(kind, value):
    """What is started meanwhile inherits it."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@scenario(row=7, title="too little memory for a large row: nothing is confirmed that is not acknowledged; with enough, it halts and says why")
def memory_is_short(world):
    outbox = world.outbox()
    with outbox.relay() as relay:
        relay.wait_streaming()
        small = outbox.insert("a")
        outbox.wait_confirmed(relay)
        before = outbox.confirmed()
        relay.kill9()
        outbox.insert("b", payload='{"text": "%s"}' % ("x" * (60 << 20)))
        end = outbox.written()
        # Enough to start with, too little for the row, which libpq alone holds twice.
        with limit_for_children(resource.RLIMIT_DATA, 100 << 20):
            relay.start()
        eventually(lambda: gave_up(relay), 60, "it has come to the large row")
        how = f"exit code {relay.exit_code}" if not relay.running else "connecting again"
        assert before <= outbox.confirmed() < end
    with outbox.relay() as relay:
        relay.wait_state("halted", 60)
        assert "MSG_SIZE_TOO_LARGE" in relay.ready()[1], relay.ready()
    assert set(outbox.ids_in_kafka()) == set(small)
    return f"short of memory: {how}; nothing confirmed beyond what was acknowledged"


def gave_up(relay):
    return not relay.running or relay.metric("outbox_relay_source_reconnects_total") > 0


SHORT_IO = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
static unsigned state = 1;
static unsigned next(void) { return __atomic_add_fetch(&state, 0x9E3779B9u, __ATOMIC_RELAXED) * 2654435761u >> 8; }
static size_t shorter(size_t size) { size_t most = 1 + next() % 1400; return size < most ? size : most; }
static int interrupted(void) { if (next() % 11) return 0; errno = EINTR; return 1; }
ssize_t recv(int fd, void *data, size_t size, int flags) {
  static ssize_t (*real)(int, void *, size_t, int);
  if (!real) real = dlsym(RTLD_NEXT, "recv");
  return interrupted() ? -1 : real(fd, data, shorter(size), flags);
}
ssize_t send(int fd, const void *data, size_t size, int flags) {
  static ssize_t (*real)(int, const void *, size_t, int);
  if (!real) real = dlsym(RTLD_NEXT, "send");
  return interrupted() ? -1 : real(fd, data, shorter(size), flags);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  static ssize_t (*real)(int, const struct msghdr *, int);
  if (!real) real = dlsym(RTLD_NEXT, "sendmsg");
  if (message->msg_iovlen == 0) return real(fd, message, flags);
  struct iovec first = message->msg_iov[0];
  first.iov_len = shorter(first.iov_len);
  struct msghdr part = *message;
  part.msg_iov = &first;
  part.msg_iovlen = 1;
  return real(fd, &part, flags);
}
"""

NO_MEMORY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
extern void *__libc_malloc(size_t);
static unsigned long calls;
void *malloc(size_t size) {
  static long every = -1;
  if (every < 0) { const char *text = getenv("FAIL_EVERY"); every = text ? atol(text) : 0; }
  unsigned long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  if (every > 0 && call % every == 0) { errno = ENOMEM; return NULL; }
  return __libc_malloc(size);
}
"""


def preloaded(world, source):
    """The environment that puts it between the relay and the C library."""
    directory = make_directory("preload")
    world.stack.callback(remove_directory, directory)
    (directory / "hook.c").write_text(source)
    library = directory / "hook.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, directory / "hook.c", "-ldl"], check=True)
    # The sanitizer's own library wants to be the first.
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}


@scenario(row=8, title="every read and write is short or interrupted")
def short_reads_and_writes(world):
    pg = world.pg(15)
    outbox = world.outbox(pg, partitions=3)
    config = outbox.changed_config(source__host=pg.host)
    with RelayProcess(config, environment=preloaded(world, SHORT_IO)) as relay:
        with SteadfastWriter(outbox, world.seed, rows=10, rows_per_second=500) as writer:
            relay.wait_streaming()
            pause(world, 3 * world.cycles, 4 * world.cycles)
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0, relay.stderr()
    return check(writer, outbox.in_kafka(), duplicates=0).assert_kept()


@scenario(row=8, title="allocations fail: whatever becomes of the process, nothing is lost")
def allocations_fail(world):
    """librdkafka ends the process where it gets no memory; the next start goes on."""
    outbox = world.outbox(partitions=3)
    ends = []
    with SteadfastWriter(outbox, world.seed, rows_per_second=300) as writer:
        for _ in range(4 * world.cycles):
            environment = preloaded(world, NO_MEMORY) | {"FAIL_EVERY": str(world.chance.randrange(20_000, 60_000))}
            with RelayProcess(outbox.config, environment=environment) as relay:
                ends.append(relay.wait_exit(60))
    with_all_confirmed(outbox)
    return f"ended with {ends}; {check(writer, outbox.in_kafka()).assert_kept()}"


# The checkpoint, which stands where a file would

def checkpointed(world, **more):
    outbox = world.outbox(**more)
    outbox.config["delivery"] = {"checkpoint": {"topic": outbox.name + ".checkpoint"}}
    return init(outbox)


@scenario(row=9, title="the checkpoint cannot be written: nothing is confirmed past it, and it is said")
def checkpoint_unwritable(world):
    # Otherwise the broker itself would make the topic again, as one that forgets.
    kafka = world.kafka(settings={"auto.create.topics.enable": "false"})
    outbox = checkpointed(world, kafka=kafka)
    with outbox.relay(sink__kafka__properties={"topic.metadata.propagation.max.ms": 1000}) as relay:
        relay.wait_streaming()
        first = outbox.insert("a")
        outbox.wait_confirmed(relay)
        kafka.delete_topic(outbox.name + ".checkpoint")
        before = outbox.confirmed()
        second = outbox.insert("b")
        end = outbox.written()
        relay.wait_state("halted", 60)
        assert "checkpoint" in relay.ready()[1], relay.ready()
        assert before <= outbox.confirmed() < end
        relay.kill9()
        init(outbox)
        relay.start()
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    ids = outbox.ids_in_kafka()
    assert set(ids) == set(first + second)
    return f"{len(ids) - 2} repeats after the checkpoint was begun anew"


@scenario(row=10, title="the checkpoint is garbage, or another system's: refused, loudly")
def checkpoint_corrupt(world):
    kafka = world.kafka()
    outbox = checkpointed(world, kafka=kafka)
    topic, key = outbox.name + ".checkpoint", f"{outbox.name}/{outbox.name}"
    foreign = ('{"version":1,"system_identifier":"1","timeline":"1","flushed_lsn":"0/10"}')
    for value, code, words in ((b"\x00garbage", 78, "is no checkpoint"), (b"{}", 78, "is no checkpoint"),
                               (foreign.encode(), 65, "the checkpoint is of system 1")):
        kafka.produce(topic, key=key.encode(), value=value, partition=0)
        with outbox.relay() as relay:
            assert relay.wait_exit(30) == code
            assert words in relay.stderr(), relay.stderr()
    return "exit 78 and 65, each with what to type"


@scenario(row=11, title="the checkpoint is ahead of a restored server: refused")
def checkpoint_ahead(world):
    pg = world.pg(15, fresh=True)
    outbox = checkpointed(world, pg=pg)
    pg.stop()
    copy = pg.copy_data()
    pg.start()
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert(*range(50), payload='{"text": "%s"}' % ("x" * 1000))
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        pg.stop()
        pg.restore(copy)
        pg.start()
        relay.start()
        assert relay.wait_exit(30) == 65
        assert "restored from a copy" in relay.stderr(), relay.stderr()
    return "exit 65"


# Clocks and descriptors

@scenario(row=12, title="the wall clock jumps by an hour, forwards and back")
def clock_jumps(world):
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    directory = make_directory("clock")
    world.stack.callback(remove_directory, directory)
    offset = directory / "offset"
    offset.write_text("+0")
    environment = {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0", "FAKETIME_NO_CACHE": "1",
                   "FAKETIME_TIMESTAMP_FILE": str(offset), "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    outbox = world.outbox(partitions=3)
    with RelayProcess(outbox.config, environment=environment) as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            relay.wait_streaming()
            for jump in ("+1h", "+0", "-1h", "+0") * world.cycles:
                offset.write_text(jump)
                before = relay.metric("outbox_relay_events_total", outcome="delivered")
                relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") > before + 50, 20,
                               "events go on")
                assert relay.live()[0] == 200 and relay.ready()[0] == 200, (jump, relay.ready())
                assert relay.metric("outbox_relay_oldest_unacked_age_seconds") < 60
                assert relay.metric("outbox_relay_event_age_seconds_sum") >= 0
        outbox.wait_confirmed(relay)
        assert relay.metric("outbox_relay_source_reconnects_total") == 0
        assert relay.terminate() == 0
    return check(writer, outbox.in_kafka(), duplicates=0).assert_kept()


@scenario(row=13, title="no descriptors: it says so, tries again without spinning, and goes on once there are some")
def descriptors_exhausted(world):
    outbox = world.outbox()
    with outbox.relay() as relay:
        relay.wait_streaming()
        own = len(os.listdir(f"/proc/{relay.pid}/fd"))
        most = resource.prlimit(relay.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(relay.pid, resource.RLIMIT_NOFILE, (own, most))
        outbox.pg.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s",
                      [outbox.name])
        took = {}
        for _ in range(2):  # Descriptors that come free are taken, until there are none.
            resource.prlimit(relay.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{relay.pid}/fd")) - 1, most))
            pause(world, 0.2, 0.4)
        took["before"] = cpu_seconds(relay.pid)
        pause(world, 3, 3)
        took["after"] = cpu_seconds(relay.pid)
        events = outbox.insert("a", "b")
        resource.prlimit(relay.pid, resource.RLIMIT_NOFILE, (most, most))
        outbox.wait_confirmed(relay, 60)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == events
    busy = (took["after"] - took["before"]) / 3
    assert busy < 0.3, f"it spins: {busy:.0%} of a core"
    return f"{busy:.1%} of a core while it had none"


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
