"""What a scenario is, and the world that it happens in.

    @scenario(row=18, title="the walsender is terminated again and again")
    def walsender_terminated(world):
        outbox = world.outbox(world.pg(15))
        ...
        return "what a person should know of the run"

A scenario fails by raising. Everything that it does at random comes from `world.chance`; the seed is printed.
"""

import itertools
import random
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field

from support.kafka import Kafka
from support.outbox import Outbox
from support.postgres import Postgres

AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once"


@dataclass(frozen=True)
class Scenario:
    row: int
    title: str
    run: object  # A function of a World.
    mode: str = AT_LEAST_ONCE

    @property
    def name(self):
        return self.run.__name__


class KnownGap(Exception):
    """Raised at the end of a scenario that holds but for what this says: the table has it, and the run goes on."""


SCENARIOS = []


def scenario(row, title, mode=AT_LEAST_ONCE):
    def register(function):
        SCENARIOS.append(Scenario(row, title, function, mode))
        return function
    return register


class Servers:
    """Started when first asked for, shared by the scenarios of one run of the driver, removed at its end."""

    def __init__(self):
        self._stack = ExitStack()
        self._known = {}

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self._stack.close()

    def get(self, key, make, usable=lambda server: server.running):
        server = self._known.get(key)
        if server is not None and not usable(server):
            server.close()  # What an earlier scenario left behind is not built upon.
            server = None
        if server is None:
            server = self._known[key] = self._stack.enter_context(make())
        return server

    def forget(self):
        """After a failure: the next scenario begins on new ones."""
        self._known.clear()


@dataclass
class World:
    servers: Servers
    seed: int
    cycles: int = 1  # How often what is repeated is repeated; a short form has 1.
    stack: ExitStack = field(default_factory=ExitStack)
    notes: list = field(default_factory=list)

    _names = itertools.count(1)

    def __post_init__(self):
        self.chance = random.Random(self.seed)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.stack.close()

    def pg(self, version=15, fresh=False, **settings):
        """A running server with these settings; `fresh` for one that nobody else uses."""
        if fresh:
            return self.stack.enter_context(Postgres(version, settings=settings))
        key = ("postgres", version, tuple(sorted(settings.items())))
        return self.servers.get(key, lambda: Postgres(version, settings=settings))

    def kafka(self, brokers=1, fresh=False, settings=None, **more):
        """Likewise a cluster; `more` goes to Kafka()."""
        if fresh or more:
            return self.stack.enter_context(Kafka(brokers=brokers, settings=settings, heap="256m", **more))
        key = ("kafka", brokers, tuple(sorted((settings or {}).items())))
        return self.servers.get(key, lambda: Kafka(brokers=brokers, settings=settings, heap="256m"))

    def outbox(self, pg=None, kafka=None, partitions=1, name=None, mode=AT_LEAST_ONCE, **more):
        """An outbox with a name that no other scenario has."""
        name = name or f"row_{next(World._names)}_{self.seed % 10000}"
        outbox = Outbox(pg or self.pg(), name, kafka or self.kafka(), partitions=partitions, **more)
        if mode == EXACTLY_ONCE:
            outbox.config["delivery"] = {"guarantee": EXACTLY_ONCE}
        return outbox

    def enter(self, context):
        """Entered now, left at the end of the scenario."""
        return self.stack.enter_context(context)

    def note(self, text):
        self.notes.append(text)
        print(f"    {text}", file=sys.stderr, flush=True)
