"""The HTTP endpoint: what it answers, and that no client of it, however ill-behaved, disturbs the relay."""

import json
import os
import re
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.relay import RelayProcess, parse_metrics
from support.shaped_outbox import ShapedOutbox
from support.wait import eventually

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def box(postgres):
    box = ShapedOutbox(postgres)
    box.config["defaults"]["on_null"] = {"key": "halt"}
    return box


@pytest.fixture
def relay(box):
    with box.relay() as relay:
        relay.wait_ready()
        yield relay


def promtool(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=30)
    return done.returncode, done.stdout + done.stderr


def raw(relay, request, timeout_s=10):
    """The first line of the answer."""
    with socket.create_connection(("127.0.0.1", relay.http_port), timeout_s) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.partition(b"\r\n")[0]


def rss_bytes(relay):
    return int(Path(f"/proc/{relay.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_metrics_are_clean_for_promtool_while_streaming_and_halted(box, relay):
    box.wait_ids(relay, [box.insert()])
    relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == 1, 5)
    assert promtool(relay.get("/metrics")[1]) == (0, "")
    bad = box.insert(aggregate_id=None)
    relay.wait_state("halted")
    assert promtool(relay.get("/metrics")[1]) == (0, "")
    assert relay.terminate() == 0
    box.config["defaults"]["on_null"]["key"] = "send"
    with box.relay() as second:
        box.wait_ids(second, [bad])
        box.wait_confirmed(second)


def test_the_metrics_of_the_readme_are_those_that_exist(box, relay):
    relay.wait_for(lambda: relay.metric("outbox_relay_slot_wal_status", status="reserved") == 1, 10)
    live = set(re.findall(r"^# TYPE (outbox_relay_\w+) ", relay.get("/metrics")[1], re.MULTILINE))
    named = set()
    for line in (ROOT / "README.md").read_text().splitlines():
        first_cell = line.split("|")[1] if line.startswith("|") and line.count("|") > 1 else ""
        named |= set(re.findall(r"`(outbox_relay_\w+)", first_cell))
    # Absent on purpose where the server sets no limit.
    assert named - {"outbox_relay_slot_safe_wal_bytes"} == live - {"outbox_relay_slot_safe_wal_bytes"}


def test_the_process_says_when_it_was_started(relay):
    assert abs(relay.metric("process_start_time_seconds") - time.time()) < 60


def test_health_and_status_say_how_the_relay_is(relay):
    assert relay.live() == (200, "ok\n") and relay.ready() == (200, "ok\n")
    status, text = relay.get("/status")
    assert status == 200 and json.loads(text)["state"] == "streaming"
    assert relay.get("/")[0] == relay.get("/metrics/../etc/passwd")[0] == relay.get("/favicon.ico")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_than_get_and_head_are_refused(relay, method):
    request = f"{method} /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert raw(relay, request.encode()).split()[1] in (b"405", b"400")
    assert raw(relay, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").split()[1] == b"200"


def test_a_request_to_switch_protocols_is_answered_as_any_other(relay):
    upgrade = b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    assert raw(relay, b"GET /livez HTTP/1.1\r\n" + upgrade) == b"HTTP/1.1 200 OK"
    assert raw(relay, b"GET /nowhere HTTP/1.1\r\n" + upgrade).split()[1] == b"404"


@pytest.mark.parametrize("request_bytes", [
    b"\x00" * 1000 + b"\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET " + b"/x" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n", b"GET http://[::1 HTTP/1.1\r\n\r\n", b"\r\n\r\n",
    b"GET /%00%2e%2e/%ff HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
], ids=range(8))
def test_nonsense_is_survived(relay, request_bytes):
    with socket.create_connection(("127.0.0.1", relay.http_port), 10) as connection:
        try:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(65536)
        except OSError:
            pass  # The endpoint may hang up at any moment.
    assert relay.live() == (200, "ok\n")


def test_a_huge_chunked_post_takes_no_memory(relay):
    relay.get("/metrics")
    before = rss_bytes(relay)
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", relay.http_port), 10) as connection:
        connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(300):
                connection.sendall(chunk)
        except ConnectionError:
            pass  # The endpoint need not read what it refuses.
    assert relay.live() == (200, "ok\n")
    assert rss_bytes(relay) - before < 30_000_000


def test_slow_clients_do_not_keep_a_scraper_out(relay):
    with ExitStack() as open_connections:
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", relay.http_port), 10)
            open_connections.enter_context(connection)
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        # A scrape is given up after ten seconds, and a probe of systemd or Kubernetes sooner or later too.
        started = time.monotonic()
        eventually(lambda: relay.get("/metrics", timeout_s=10)[0] == 200, 20, "a scrape gets through")
        assert time.monotonic() - started < 10
    assert relay.terminate(10) == 0


def listening_addresses(pid):
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(entry)))
        except FileNotFoundError:
            pass
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1])
    return found


def test_the_endpoint_is_bound_to_loopback_alone(relay):
    [address] = listening_addresses(relay.pid)
    assert address == f"0100007F:{relay.http_port:04X}"


def test_without_a_listen_key_the_documented_loopback_port_is_used(box):
    # The default port may be in use on this machine: then the message names it.
    config = dict(box.config)
    config["http"] = {}
    text = json.dumps(config)
    with RelayProcess(text, http_port=9464) as relay:
        eventually(lambda: not relay.running or listening_addresses(relay.pid), 15, "it listens, or says why not")
        if relay.running:
            assert listening_addresses(relay.pid) == {"0100007F:24F8"}
        else:
            assert relay.exit_code == 78 and "http.listen 127.0.0.1:9464" in relay.stderr()


def test_off_listens_nowhere(box):
    with RelayProcess(json.dumps({**box.config, "http": {"listen": "off"}}), http_port=1) as relay:
        relay.wait_log("streaming from")
        assert listening_addresses(relay.pid) == set()
        assert relay.terminate() == 0


def test_a_port_in_use_is_a_clear_config_error(box):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with RelayProcess({**box.config, "http": {"listen": f"127.0.0.1:{port}"}}) as relay:
            assert relay.wait_exit(15) == 78
            assert f"http.listen 127.0.0.1:{port}" in relay.stderr() and "Is another process there?" in relay.stderr()


def test_a_scrape_does_not_wait_for_postgres(box, relay):
    walsender = box.pg.walsender_pid(box.name)
    with box.pg.paused(box.pg.pid), box.pg.paused(walsender):
        for path in ("/metrics", "/livez", "/readyz", "/status") * 3:
            started = time.monotonic()
            assert relay.get(path, timeout_s=3)[0] in (200, 503)
            assert time.monotonic() - started < 1
    relay.wait_ready()


def test_status_of_the_command_finds_the_endpoint_where_the_config_says(box, relay):
    box.config["http"] = {"listen": f"127.0.0.1:{relay.http_port}"}
    try:
        code, out, _ = box.command("status", "--json")
        assert code == 0 and json.loads(out)["relay"]["state"] == "streaming"
    finally:
        del box.config["http"]


def test_counters_only_grow_and_lags_are_never_negative(box, relay):
    first = parse_metrics(relay.get("/metrics")[1])
    box.insert()
    relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == 1, 5)
    second = parse_metrics(relay.get("/metrics")[1])
    for sample, value in second.items():
        assert value >= 0, sample
        if sample.split("{")[0].endswith("_total"):
            assert value >= first.get(sample, 0), sample
