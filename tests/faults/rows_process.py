"""Rows 71 to 74: what the process meets beside its two servers, and everything at once."""

import os
import signal
import socket
import threading
import time

from faults.checker import check
from faults.memory import Memory
from faults.proxy import Proxy
from faults.rows_relay import pause, with_all_confirmed
from faults.scenario import scenario
from support.process import make_directory, remove_directory
from support.relay import RelayProcess
from support.steadfast_writer import SteadfastWriter


@scenario(row=71, title="scrape flood, slow loris and a huge POST on the HTTP port: bounded memory, scrapes go on")
def http_flood(world):
    outbox = world.outbox(partitions=3)
    with outbox.relay() as relay, SteadfastWriter(outbox, world.seed) as writer:
        relay.wait_streaming()
        start_mb = resident_mb(relay.pid)
        with Memory(relay.pid) as memory:
            lorises = [socket.create_connection(("127.0.0.1", relay.http_port)) for _ in range(30)]
            for loris in lorises:
                loris.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            for loris in lorises:
                loris.close()
            flood = [threading.Thread(target=scrape, args=(relay, 100)) for _ in range(4)]
            for thread in flood:
                thread.start()
            post(relay.http_port, 300 << 20)
            for thread in flood:
                thread.join()
            assert relay.get("/metrics")[0] == 200
        outbox.wait_confirmed(relay)
        finding = memory.finding(start_mb + 100)
        assert finding.kept, finding
    with_all_confirmed(outbox)
    return f"{finding.text}; {check(writer, outbox.in_kafka()).assert_kept()}"


def scrape(relay, times):
    for _ in range(times):
        try:
            relay.get("/metrics", timeout_s=10)
        except OSError:
            pass  # Too many at once: refused is an answer.


def post(port, size):
    """In chunks, until it is cut off."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    chunk = b"%x\r\n" % 65536 + b"x" * 65536 + b"\r\n"
    try:
        connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(size // 65536):
            connection.sendall(chunk)
    except OSError:
        pass
    finally:
        connection.close()


def resident_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


@scenario(row=72, title="SIGHUP with a broken file: the old configuration stays, the error is logged, a metric says so")
def broken_reload(world):
    outbox = world.outbox()
    with outbox.relay() as relay:
        relay.wait_streaming()
        good = relay.config_path.read_text()
        relay.config_path.write_text(good.replace('"version"', '"no_such_key": 1, "version"', 1))
        relay.signal(signal.SIGHUP)
        relay.wait_for(lambda: relay.metric("outbox_relay_config_reload_success") == 0, 10, "it is noticed")
        relay.wait_log("no_such_key")
        events = outbox.insert("a")
        outbox.wait_confirmed(relay)
        relay.config_path.write_text(good)
        relay.signal(signal.SIGHUP)
        relay.wait_for(lambda: relay.metric("outbox_relay_config_reload_success") == 1, 10, "it is mended")
        events += outbox.insert("b")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
    assert outbox.ids_in_kafka() == events
    return "streamed on through both"


@scenario(row=73, title="nobody reads the log: events go on, lines are dropped and counted")
def log_blocked(world):
    outbox = world.outbox(partitions=3)
    directory = make_directory("log")
    world.stack.callback(remove_directory, directory)
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    config = outbox.changed_config(log__level="debug", sink__kafka__properties={"debug": "all"})
    with RelayProcess(config, log_path=pipe) as relay, SteadfastWriter(outbox, world.seed) as writer:
        pipe.unlink()
        pipe.write_text("")  # Whoever wants to see the log here sees none; the relay holds the pipe.
        relay.wait_state("streaming")
        relay.wait_for(lambda: relay.metric("outbox_relay_log_lines_dropped_total") > 0, 30, "the pipe is full")
        before = relay.metric("outbox_relay_events_total", outcome="delivered")
        relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") > before + 100, 20,
                       "events go on")
        outbox.wait_confirmed(relay)
        os.close(reader)
        relay.kill9()
    with_all_confirmed(outbox)
    return check(writer, outbox.in_kafka()).assert_kept()


@scenario(row=74, title="PostgreSQL, Kafka, the network and the relay flap at random")
def everything_flaps(world):
    pg, kafka = world.pg(15, fresh=True), world.kafka()
    outbox = world.outbox(pg, kafka, partitions=3)
    proxy = world.enter(Proxy((pg.host, pg.port)))
    direct = outbox.config
    through = outbox.changed_config(source__host="127.0.0.1", source__port=proxy.port)
    outbox.config = through
    deeds = {"reset": proxy.reset, "half close": proxy.half_close,
             "truncate": lambda: proxy.truncate("down", world.chance.randrange(5000)),
             "blackhole": lambda: blackhole(world, proxy), "server": lambda: restart(world, pg),
             "broker": lambda: freeze(world, kafka)}
    done = []
    with outbox.relay() as relay, SteadfastWriter(outbox, world.seed) as writer:
        deeds["kill"] = lambda: (relay.kill9(), relay.start())
        end = time.monotonic() + 15 * world.cycles
        while time.monotonic() < end:
            pause(world, 0, 1)
            name = world.chance.choice(sorted(deeds))
            done.append(name)
            deeds[name]()
    outbox.config = direct
    with_all_confirmed(outbox)
    return f"{len(done)} faults; {check(writer, outbox.in_kafka()).assert_kept()}"


def blackhole(world, proxy):
    proxy.swallow()
    pause(world, 0.2, 2)
    proxy.pass_on()


def restart(world, pg):
    if world.chance.random() < 0.5:
        pg.kill()
        pg.start()
    else:
        pg.restart(world.chance.choice(["fast", "immediate"]))


def freeze(world, kafka):
    kafka.pause()
    pause(world, 0.2, 2)
    kafka.resume()
