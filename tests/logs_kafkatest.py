"""What stands in the log, in metrics and on the command line: changes of state, and nothing that is secret."""

import datetime
import json
import re
import subprocess
from pathlib import Path

import pytest

from support.shaped_outbox import ShapedOutbox

PASSWORD = "pg-s3cret-93817"
SASL_PASSWORD = "sasl-s3cret-55512"
PAYLOAD = "payload-of-a-customer-48151"
KEY = "key-of-a-customer-62342"
EVENTS = 5_000


def everything_said(relay):
    cmdline = Path(f"/proc/{relay.pid}/cmdline").read_bytes().decode()
    return cmdline + relay.stderr() + "".join(relay.get(path)[1] for path in ("/metrics", "/status", "/readyz", "/livez"))


def test_no_secret_payload_or_key_is_ever_said_at_any_level(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    role = f"secretive_{box.name}"
    postgres.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    postgres.require_password(role, PASSWORD)
    box.config["source"].update(user=role, password=PASSWORD)
    box.config["log"] = {"level": "debug"}  # Says what all others say, and more.
    try:
        with box.relay() as relay:
            relay.wait_streaming()
            for kind in ("order", "order", "not a topic"):
                box.insert(aggregate_type=kind, aggregate_id=KEY, payload=json.dumps(PAYLOAD))
            relay.wait_state("halted")
            assert len(kafka.consume(f"{box.name}.order", until=2)) == 2
            said = everything_said(relay)
            relay.terminate()
            said += relay.stderr()
        for secret in (PASSWORD, PAYLOAD, KEY):
            assert secret not in said

        # A password that is refused, and one for a broker that does not want it.
        box.config["source"]["password"] = "wrong-" + PASSWORD
        box.config["sink"]["kafka"]["properties"] = {
            "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "relay",
            "sasl.password": SASL_PASSWORD, "debug": "security,broker,conf"}
        with box.relay() as relay:
            assert relay.wait_exit(30) == 77
            refused = relay.stderr()
        box.config["source"]["password"] = PASSWORD
        box.config["defaults"]["route"]["topic"] = box.name + ".rest"
        with box.relay() as relay:
            relay.wait_log("librdkafka|Kafka")
            refused += everything_said(relay)
        refused += "".join(box.command("check", "--connect")[1:])
        for secret in (PASSWORD, SASL_PASSWORD, PAYLOAD, KEY):
            assert secret not in refused
    finally:
        postgres.set_hba()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_has_a_line_for_each_change_of_state_and_none_for_an_event(postgres, kafka, log_format):
    box = ShapedOutbox(postgres, kafka)
    box.config["log"] = {"format": log_format}
    with box.relay() as relay:
        relay.wait_streaming()
        before = len(relay.stderr().splitlines())
        with box.connect() as connection, connection.cursor() as cursor:
            for _ in range(100):
                cursor.execute("INSERT INTO outbox_events (aggregate_id) SELECT n::text FROM generate_series(1, %s) n",
                               [EVENTS // 100])
                connection.commit()
        relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == EVENTS, 30)
        assert len(relay.stderr().splitlines()) - before <= 1
        assert relay.terminate() == 0
        lines = relay.stderr().splitlines()
    assert 3 <= len(lines) <= 8, lines
    entries = [parse(line, log_format) for line in lines]
    assert {entry["level"] for entry in entries} <= {"info", "warning"}
    messages = [entry["message"] for entry in entries]
    for part in ("starting", "streaming from", "stopping", "stopped: everything up to"):
        assert sum(part in message for message in messages) == 1, messages
    times = [datetime.datetime.fromisoformat(entry["time"].replace("Z", "+00:00")) for entry in entries]
    assert times == sorted(times)


def parse(line, log_format):
    if log_format == "json":
        return json.loads(line)
    return re.fullmatch(r"(?P<time>\S+Z) (?P<level>\w+) (?P<message>.*)", line).groupdict()


def test_a_json_log_stays_json_whatever_a_row_holds(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    box.config["log"] = {"format": "json"}
    box.insert(aggregate_type='"quoted"\n\t\\ \x1b[31m ü 😀')
    with box.relay() as relay:
        relay.wait_state("halted")
        entries = [json.loads(line) for line in relay.stderr().splitlines()]
        assert any('"quoted"' in entry["message"] for entry in entries if entry["level"] == "error")


def test_a_scrape_answers_and_metrics_are_clean_while_the_broker_is_paused(postgres, kafka):
    box = ShapedOutbox(postgres, kafka)
    box.config["sink"]["kafka"]["properties"] = {"queue.buffering.max.messages": 10}
    box.config["http"] = {"unready_after": "1s"}
    try:
        with box.relay() as relay:
            relay.wait_streaming()
            box.insert()
            kafka.consume(f"{box.name}.order", until=1)
            kafka.pause()
            for _ in range(30):
                box.insert()
            relay.wait_state("blocked")
            relay.wait_for(lambda: relay.ready()[0] == 503, 10, "unready")
            assert relay.live() == (200, "ok\n")
            assert relay.metric("outbox_relay_backpressure_active") == 1
            assert relay.metric("outbox_relay_oldest_unacked_age_seconds") >= 1
            assert relay.metric("outbox_relay_inflight_events") == 10
            check_with_promtool(relay.get("/metrics", timeout_s=2)[1])
            kafka.resume()
            relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") == 31, 30)
            relay.wait_ready()
            assert relay.metric("outbox_relay_backpressure_seconds_total") > 0
            assert relay.terminate() == 0
    finally:
        kafka.resume()


def check_with_promtool(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
