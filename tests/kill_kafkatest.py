"""A relay that is killed at any moment: nothing lost, nothing early, nothing repeated that was confirmed (A3, A9)."""

import random
import threading
from collections import defaultdict
from dataclasses import dataclass

import pytest

from support.load import Load, transactions_of
from support.outbox import Outbox, event_id

ROUNDS = 50
SEED = random.SystemRandom().randrange(1 << 32)


@dataclass
class Killed:
    committed: list        # of Transaction
    table_ids: list
    records: list
    states: list           # of (confirmed_flush_lsn, high watermarks of the topic), one after each kill
    end_lsn: dict          # of each event id


@pytest.fixture(scope="module")
def killed(postgres, kafka):
    """Fifty kills under load. After each, while nobody runs: what the slot has confirmed, and how far Kafka is."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    outbox = Outbox(postgres, "killed", kafka, partitions=3)
    outbox.create_slot("witness")
    states = []
    # Lingering keeps records unacknowledged for long, and a short timeout makes status updates frequent: where a
    # position confirmed early would show.
    with outbox.relay(sink__kafka__properties={"linger.ms": 30},
                      source__libpq={"options": "-c wal_sender_timeout=600ms"}) as relay:
        with Load(outbox, SEED, writers=2, rows=2, rows_per_second=300):
            for _ in range(ROUNDS):
                relay.wait_streaming()
                if chance.random() < 0.3:
                    kill_while_nothing_is_acknowledged(relay, kafka)
                else:
                    # The moment of the kill, at random; a confirmation under load may be a second late.
                    threading.Event().wait(chance.uniform(0, 1.5 if chance.random() < 0.3 else 0.4))
                    relay.kill9()
                states.append((outbox.confirmed(), kafka.high_watermarks("killed")))
                relay.start()
        outbox.wait_confirmed(relay, deadline_s=60)
    committed = transactions_of(outbox, "witness")
    return Killed(committed, outbox.ids(), outbox.in_kafka(), states,
                  {event: each.end_lsn for each in committed for event, _ in each.events})


def kill_while_nothing_is_acknowledged(relay, kafka):
    """Status updates go on meanwhile, and must not confirm what is on the way."""
    kafka.pause()
    sent = relay.metric("outbox_relay_confirmations_total")
    relay.wait_for(lambda: relay.metric("outbox_relay_inflight_events") > 0
                   and relay.metric("outbox_relay_confirmations_total") >= sent + 3, 20,
                   "status updates while records are on the way")
    relay.kill9()
    kafka.resume()


def test_everything_committed_and_nothing_else_is_in_kafka(killed):
    assert len(killed.committed) > ROUNDS * 10, "there was load"
    assert {event_id(record) for record in killed.records} == set(killed.table_ids) == set(killed.end_lsn)


def test_each_key_comes_in_the_order_of_the_commits(killed):
    committed, arrived = defaultdict(list), defaultdict(dict)
    for transaction in killed.committed:
        for event, key in transaction.events:
            committed[key].append(event)
    for record in killed.records:
        arrived[record.key.decode()].setdefault(event_id(record))
    assert {key: list(events) for key, events in arrived.items()} == committed


def test_what_the_slot_had_confirmed_at_each_kill_was_in_kafka(killed):
    first = {}
    for record in killed.records:
        first.setdefault(event_id(record), record)
    advanced = 0
    for confirmed, watermarks in killed.states:
        covered = [event for event, end_lsn in killed.end_lsn.items() if end_lsn <= confirmed]
        advanced += bool(covered)
        missing = [event for event in covered if first[event].offset >= watermarks[first[event].partition]]
        assert not missing, f"confirmed at {confirmed:X} but not acknowledged: {len(missing)}"
    assert advanced > ROUNDS / 2, "the slot was confirmed between kills"


def test_what_the_slot_had_confirmed_at_a_kill_never_comes_again(killed):
    """So duplicates are bounded by what was in flight."""
    arrived = [(record.partition, record.offset, killed.end_lsn[event_id(record)]) for record in killed.records]
    for confirmed, watermarks in killed.states:
        again = [end_lsn for partition, offset, end_lsn in arrived
                 if end_lsn <= confirmed and offset >= watermarks[partition]]
        assert not again, f"confirmed at {confirmed:X} and sent again: {len(again)}"
    repeats = len(killed.records) - len(killed.table_ids)
    print(f"{len(killed.table_ids)} events, {repeats} repeats in {ROUNDS} kills")
    assert repeats > 0, "kills that repeat nothing were made at moments with nothing in flight"
