"""Whether what arrived is what was committed: invariants I1 to I5, each with its first violation.

    verdict = check(writer, records, duplicates=0)
    verdict.assert_kept()

I1  every committed event arrived.              I2  nothing else arrived.
I3  per key, first arrivals are in the order of the commits, and what comes again is a run that was there before.
I4  at most so many records came again.         I5  nothing was confirmed that was not acknowledged (see confirmations.py).
I6  memory, see memory.py.
"""

from collections import defaultdict
from dataclasses import dataclass

from support.outbox import event_id


@dataclass(frozen=True)
class Finding:
    invariant: str
    kept: bool
    text: str

    def __str__(self):
        return f"{self.invariant} {'kept' if self.kept else 'VIOLATED'}: {self.text}"


class Verdict:
    def __init__(self, findings):
        self.findings = findings

    @property
    def kept(self):
        return all(finding.kept for finding in self.findings)

    def __str__(self):
        return "\n".join(map(str, self.findings))

    def assert_kept(self):
        """The text for a table; raises with the whole verdict where an invariant is violated."""
        if not self.kept:
            raise AssertionError(f"\n{self}")
        return "; ".join(finding.text for finding in self.findings)


@dataclass(frozen=True)
class Arrival:
    id: str
    key: str


def arrivals(records):
    return [Arrival(event_id(record), record.key.decode()) for record in records]


def check(writer, records, duplicates=None):
    """`writer` has committed, unknown and rolled_back events, each with id, key and sequence.

    `records`: each partition in its order. `duplicates`: how many may come again; None for any number.
    """
    known = {event.id: event for event in [*writer.committed, *writer.unknown]}
    arrived = arrivals(records)
    return Verdict([_nothing_lost(writer, arrived), _nothing_uncommitted(known, writer, arrived),
                    _in_order(known, arrived), _repeats(arrived, duplicates)])


def _nothing_lost(writer, arrived):
    there = {each.id for each in arrived}
    lost = [event for event in writer.committed if event.id not in there]
    if lost:
        return Finding("I1", False, f"{len(lost)} of {len(writer.committed)} committed events are missing, first {lost[0]}")
    return Finding("I1", True, f"{len(writer.committed)} committed events arrived"
                   + (f", {len(writer.unknown)} commits unanswered" if writer.unknown else ""))


def _nothing_uncommitted(known, writer, arrived):
    ghosts = [each for each in arrived if each.id not in known]
    if ghosts:
        rolled_back = {event.id for event in writer.rolled_back}
        of_them = sum(each.id in rolled_back for each in ghosts)
        return Finding("I2", False, f"{len(ghosts)} records of nothing committed ({of_them} rolled back), first {ghosts[0]}")
    return Finding("I2", True, f"0 of {len(writer.rolled_back)} rolled back")


def _in_order(known, arrived):
    """A step back may be of any length, but from there on the events come in the order in which they came first."""
    first_seen, place = defaultdict(list), {}
    at = {}
    for each in arrived:
        if each.id not in known:
            continue
        key, seen = each.key, first_seen[each.key]
        sequence = known[each.id].sequence
        if each.id not in place:
            if seen and sequence < seen[-1]:
                return Finding("I3", False, f"key {key}: number {sequence} came first after number {seen[-1]}")
            place[each.id] = len(seen)
            seen.append(sequence)
        elif place[each.id] > at[key] + 1:
            return Finding("I3", False, f"key {key}: number {sequence} came again, and what came between did not")
        at[key] = place[each.id]
    return Finding("I3", True, f"{len(first_seen)} keys in order")


def _repeats(arrived, most):
    repeats = len(arrived) - len({each.id for each in arrived})
    if most is not None and repeats > most:
        seen, first = set(), None
        for each in arrived:
            if each.id in seen:
                first = each
                break
            seen.add(each.id)
        return Finding("I4", False, f"{repeats} records came again, at most {most} may, first {first}")
    return Finding("I4", True, f"{repeats} repeats")
