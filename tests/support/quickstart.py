"""The quick start after its packages are there: build, servers, relay, an order service, a look.

Started by ./quickstart. One line per step with its duration; what the steps themselves print is in
build/quickstart.log.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg2

from .order_service import CREATE_ORDERS, place_order
from .postgres import Postgres
from .relay import RelayProcess, relay_config, run_command

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = REPOSITORY / "build" / "release" / "outbox-relay"
LOG = REPOSITORY / "build" / "quickstart.log"
SQL_FILES = ["01_outbox_events.sql", "02_publication.sql", "03_relay_role.sql"]
DATABASE = "shop"
RELAY_ROLE = "relay"
TOPIC = "outbox.event.order"

# Customer, cents, and whether the card is accepted; a refused one rolls its transaction back.
ORDERS = [("ada", 1999, True), ("grace", 4250, True), ("edsger", 100, False), ("barbara", 72000, True),
          ("ada", 350, True), ("tony", 9900, False), ("grace", 1250, True), ("leslie", 310, True)]


def main(keep):
    with ExitStack() as running:
        with step("build (release)"):
            logged("cmake", "--preset", "release")
            logged("cmake", "--build", "--preset", "release")
        with_kafka = fetch_kafka()

        with step("start PostgreSQL"):
            pg = running.enter_context(Postgres())
            pg.create_database(DATABASE)
        kafka = start_kafka(running) if with_kafka else None
        with step("create outbox, publication and role (sql/)"):
            for name in SQL_FILES:
                pg.psql(REPOSITORY / "sql" / name, db=DATABASE)
            pg.sql(CREATE_ORDERS, db=DATABASE)

        config = relay_config(pg, DATABASE, kafka, user=RELAY_ROLE)
        with step("outbox-relay init: the replication slot"):
            relay_command("init", config)
        with step("outbox-relay run: streaming"):
            relay = running.enter_context(RelayProcess(config, BINARY))
            relay.wait_streaming()

        placed = play_order_service(pg)
        show_delivered(kafka, relay, len(placed))
        # The relay publishes its own figures ten times a second.
        relay.wait_for(lambda: relay.metric("outbox_relay_events_total", outcome="delivered") >= len(placed), 10,
                       "the relay's figures show them")
        print("\noutbox-relay status:")
        print(indented(relay_command("status", relay.config_path)))
        print()
        if keep:
            say_how_to_go_on(pg, kafka, relay)
            wait_for_interrupt()
        with step("stop the relay (SIGTERM)"):
            code = relay.terminate()
            if code != 0:
                raise RuntimeError(f"the relay ended with exit code {code}:\n{relay.stderr()}")
        with step("stop the servers, remove their directories"):
            running.close()


@contextmanager
def step(label):
    print(f"{label:<60} ", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - started:7.1f} s", flush=True)


def logged(*command):
    with open(LOG, "ab") as log:
        done = subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=log, check=False)
    if done.returncode != 0:
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-20:])
        raise RuntimeError(f"{' '.join(command)} failed; {LOG} ends with:\n{tail}")


def fetch_kafka():
    """False, with the reason printed, where Java or the jars can't be had."""
    try:
        with step("fetch Kafka"):
            import confluent_kafka  # noqa: F401  Installed together with Java.
            logged("tests/support/fetch_servers.sh", "kafka")
        return True
    except (ImportError, RuntimeError) as problem:
        print(f"  No Kafka here: {str(problem).splitlines()[-1]}\n"
              "  The same run follows with the stdout sink: JSON lines instead of records.")
        return False


def start_kafka(running):
    from .kafka import Kafka
    with step("start Kafka, create the topic"):
        kafka = running.enter_context(Kafka())
        kafka.create_topic(TOPIC, partitions=3)
    return kafka


def relay_command(name, config):
    if isinstance(config, Path):
        config = config.read_text()
    code, stdout, stderr = run_command([name], config, BINARY)
    if code != 0:
        raise RuntimeError(f"outbox-relay {name} ended with exit code {code}:\n{stdout}{stderr}")
    return stdout


def play_order_service(pg):
    """Places the orders; the ids of those that stand."""
    print("\nThe order service: an order row and its event row in one transaction")
    placed = []
    connection = pg.connect(DATABASE)
    for order_id, (customer, cents, accepted) in enumerate(ORDERS, start=1):
        stands = place_order(connection, order_id, customer, cents, accepted)
        print(f"    order {order_id}  {customer:<8} {cents / 100:>7.2f}  "
              + ("COMMIT" if stands else "ROLLBACK (card refused)"))
        if stands:
            placed.append(order_id)
    connection.close()
    return placed


def show_delivered(kafka, relay, expected):
    if kafka is not None:
        from .show_records import show
        with kafka.reader(TOPIC) as reader:
            relay.wait_for(lambda: reader.read_more(0.05) is not None and len(reader.records) >= expected,
                           describe="every event is in Kafka")
            records = reader.records
        print(f"\nConsumed from Kafka, {len(records)} records: topic[partition]@offset, key, headers, value")
        lines = [show(record) for record in sorted(records, key=lambda r: (r.timestamp, r.key))]
    else:
        relay.wait_for(lambda: len(relay.stdout_lines()) >= expected, describe="every event is written")
        lines = relay.stdout_path.read_text().splitlines()
        print(f"\nWritten by the stdout sink, {len(lines)} lines")
    print(indented("\n".join(lines)))
    if len(lines) != expected:
        raise RuntimeError(f"{expected} orders were committed, {len(lines)} events were delivered")


def indented(text):
    return "\n".join("    " + line for line in text.rstrip("\n").splitlines())


def say_how_to_go_on(pg, kafka, relay):
    insert = ("INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload) "
              "VALUES ('order', '99', 'OrderPlaced', '{\\\"order\\\": 99}')")
    print("It runs until Ctrl-C. From another terminal, in this directory:")
    print(f"  insert    psql -h {pg.host} -p {pg.port} -U postgres {DATABASE} -c \"{insert}\"")
    if kafka is not None:
        print("  consume   (cd tests && /usr/bin/python3 -m support.show_records "
              f"{kafka.bootstrap} '^outbox\\.event\\.')")
    else:
        print(f"  consume   tail -f {relay.stdout_path}")
    print(f"  scrape    curl -s http://127.0.0.1:{relay.http_port}/metrics")
    print(f"  health    curl -i http://127.0.0.1:{relay.http_port}/readyz")
    print(f"  status    {os.path.relpath(BINARY, REPOSITORY)} status --config {relay.config_path}")
    print(f"  its log   tail -f {relay.log_path}", flush=True)


def wait_for_interrupt():
    """Ctrl-C and SIGTERM both end the stay; neither is an error."""
    wanted = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    signal.sigwait(wanted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)
    print(flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main(keep="--keep" in sys.argv[1:])
    except (RuntimeError, OSError, psycopg2.Error) as problem:
        sys.exit(f"quickstart: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
