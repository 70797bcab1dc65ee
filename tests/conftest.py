"""Fixtures: the servers, started once per test run, and the relay's binary.

A server that cannot be had fails the test that asks for it; nothing is ever skipped.
"""

import itertools

import pytest

from support.kafka import Kafka
from support.postgres import Postgres
from support.relay import relay_binary

POSTGRES_VERSIONS = (14, 15, 16, 17, 18)

_database_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka():
    """One broker for the whole run. A test that stops or pauses it makes it run again."""
    with Kafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def postgres():
    """Debian's version, for tests that the version does not matter to."""
    with Postgres(15) as server:
        yield server


@pytest.fixture(scope="session", params=POSTGRES_VERSIONS, ids=lambda version: f"pg{version}")
def every_postgres(request):
    """The test runs once on each version."""
    with Postgres(request.param) as server:
        yield server


@pytest.fixture
def database(postgres):
    """The name of a new, empty database in `postgres`."""
    return postgres.create_database(f"test_{next(_database_numbers)}")


@pytest.fixture(scope="session")
def binary():
    return relay_binary()
