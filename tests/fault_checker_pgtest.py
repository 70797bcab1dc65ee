"""The checker of the fault scenarios finds what it is there for: each invariant, violated on purpose."""

from dataclasses import dataclass, field

import pytest

from faults.checker import check
from faults.confirmations import Confirmations
from support.load import Transaction
from support.steadfast_writer import Written


@dataclass
class Writer:
    committed: list = field(default_factory=list)
    unknown: list = field(default_factory=list)
    rolled_back: list = field(default_factory=list)


@dataclass
class Record:
    id: str
    key: bytes
    partition: int = 0
    offset: int = 0

    def header(self, name):
        assert name == "id"
        return self.id.encode()


EVENTS = [Written(f"e{n}", "k", n) for n in range(1, 6)]


def arrived(*numbers):
    return [Record(f"e{n}", b"k", offset=offset) for offset, n in enumerate(numbers)]


def violated(writer, records, duplicates=None):
    return [finding.invariant for finding in check(writer, records, duplicates).findings if not finding.kept]


@pytest.mark.parametrize("numbers, invariants", [
    ((1, 2, 3, 4, 5), []),
    ((1, 2, 3, 2, 3, 4, 5), []),           # A run that comes again.
    ((1, 2, 3, 3, 4, 5, 5), []),
    ((1, 2, 4, 5), ["I1"]),
    ((1, 2, 4, 3, 5), ["I3"]),
    ((1, 2, 3, 4, 5, 2, 5), ["I3"]),       # What comes again leaves something out.
])
def test_loss_and_order(numbers, invariants):
    assert violated(Writer(committed=EVENTS), arrived(*numbers)) == invariants


def test_what_was_rolled_back_or_never_written_is_found():
    writer = Writer(committed=EVENTS[:2], rolled_back=EVENTS[2:3])
    assert violated(writer, arrived(1, 2, 3)) == ["I2"]
    assert violated(writer, arrived(1, 2, 9)) == ["I2"]


def test_a_commit_without_an_answer_may_have_come_or_not():
    writer = Writer(committed=EVENTS[:2], unknown=EVENTS[2:3])
    assert violated(writer, arrived(1, 2)) == violated(writer, arrived(1, 2, 3)) == []


def test_repeats_are_counted():
    assert violated(Writer(committed=EVENTS), arrived(1, 2, 3, 4, 5, 5), duplicates=0) == ["I4"]
    assert violated(Writer(committed=EVENTS), arrived(1, 2, 3, 4, 5, 5), duplicates=1) == []


class Kafka:
    def __init__(self, watermark):
        self.watermark = watermark

    def high_watermarks(self, _):
        return {0: self.watermark}


@pytest.mark.parametrize("watermark, kept", [(2, True), (1, False)])
def test_a_confirmation_ahead_of_the_acknowledgements_is_found(watermark, kept):
    transactions = [Transaction(100, [("e1", "k")]), Transaction(200, [("e2", "k")]), Transaction(300, [("e3", "k")])]
    confirmations = Confirmations(Kafka(watermark), "topic")
    confirmations.on_status(250)
    assert confirmations.check(transactions, arrived(1, 2, 3)).kept == kept
