"""What PostgreSQL says was committed, and whether what arrived is that: invariants I1 to I4 for rows whose load is SQL.

A witness slot beside the relay's own keeps every transaction of the outbox. Its account has the order of the commits,
so that nothing need be known about who wrote what: DDL, COPY, savepoints and prepared transactions are all the same.
"""

from collections import defaultdict

from support.load import transactions_of
from support.outbox import event_id

WITNESS = "_witness"


def watch(outbox):
    """From here on the witness remembers, and records bear the time at which the broker wrote them."""
    outbox.create_slot(outbox.name + WITNESS)
    if outbox.kafka is not None:
        outbox.kafka.alter_topic_config(outbox.name, {"message.timestamp.type": "LogAppendTime"})
    return outbox


def committed(outbox):
    """(id, key) of every event, in the order of the commits."""
    return [event for each in transactions_of(outbox, outbox.name + WITNESS) for event in each.events]


def arrived(outbox):
    """(id, key) of every record, each partition in its order."""
    return [(event_id(record), record.key.decode() if record.key else None) for record in outbox.in_kafka()]


def check_delivered(outbox, duplicates=0, expected=None):
    """Everything committed, nothing else, in order per key, and at most so many records twice; a text for people."""
    wanted = committed(outbox) if expected is None else expected
    records = arrived(outbox)
    first = list(dict.fromkeys(records))
    came = set(first)
    lost = [event for event in wanted if event not in came]
    assert not lost, f"I1: {len(lost)} of {len(wanted)} committed events are missing, the first: {lost[0]}"
    known = set(wanted)
    ghosts = [event for event in first if event not in known]
    assert not ghosts, f"I2: {len(ghosts)} events appeared that were never committed, the first: {ghosts[0]}"
    in_commits, in_kafka = _by_key(wanted), _by_key(records)
    for key, events in in_commits.items():
        place = {event: number for number, event in enumerate(events)}
        before = -1
        for event in in_kafka[key]:
            # The next one, or a step back from where everything comes again.
            assert place[event] <= before + 1, f"I3: key {key}: event {event} came before {events[before + 1]}"
            before = place[event]
    repeats = len(records) - len(first)
    assert repeats <= duplicates, f"I4: {repeats} records came again, at most {duplicates} may"
    return f"{len(wanted)} events, {repeats} repeats"


def _by_key(events):
    keys = defaultdict(list)
    for event, key in events:
        keys[key].append(event)
    return keys
