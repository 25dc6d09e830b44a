"""Instances that tests of several folders share.

Each is started once, when first needed, and ends with the last test that needs it: one that only
waits takes time from the others all the same.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from tests.support.kafka import Kafka, unique
from tests.support.product import Product, running_product

HEARTBEAT = 2
IMPATIENCE = 4
SOURCE_CONNECTIONS = 1_000
COMPLETION_TOPIC = "ends"
_running: dict[str, ExitStack] = {}
_last_users: dict[str, pytest.Item] = {}


@contextmanager
def until_last_use(fixture: str, start: AbstractContextManager[Product]) -> Iterator[Product]:
    """Run an instance until no test is left that names this fixture."""
    with ExitStack() as stack:
        _running[fixture] = stack
        yield stack.enter_context(start)


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with its defaults, but always two shards: batches have to be put together again."""
    folder = tmp_path_factory.mktemp("sharded") / ".muster"
    with running_product(folder, "--shards", "2") as running:
        yield running


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """An instance for faults: each has to leave it as it found it.

    It is Muster as `muster up` starts it, only less patient, so that the tests are over sooner. It
    has two replicas, of which one may die, and logs all that can be logged, in which no secret may
    be found.
    """
    folder = tmp_path_factory.mktemp("mortal") / "with spaces" / ".muster"
    settings = {
        "ingress_replicas": "2",
        "heartbeat": str(HEARTBEAT),
        "request_timeout": "4",
        "sweep_every": "2",
        "log_level": "DEBUG",
    }
    with running_product(folder, "--shards", "2", **settings) as running:
        yield running


@pytest.fixture(scope="session")
def impatient(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with three ingest actors that soon gives up on slow callers.

    It has one shard, so that tests know which one is held up.
    """
    asyncio.run(kafka.create_topic(COMPLETION_TOPIC, partitions=2))
    settings = {
        "request_timeout": str(IMPATIENCE),
        "source_connections": str(SOURCE_CONNECTIONS),
        "kafka_bootstrap": kafka.bootstrap,
        "kafka_group": unique("muster"),
        "kafka_ingest": "3",
        "kafka_completion_topic": COMPLETION_TOPIC,
        "kafka_topics": "^sure-.*,^acme[.].*=acme",
    }
    folder = tmp_path_factory.mktemp("impatient") / ".muster"
    start = running_product(folder, "--shards", "1", **settings)
    with until_last_use("impatient", start) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep users of an instance together, and after all others those that stop it."""
    items.sort(
        key=lambda item: (
            "dedicated" not in _fixtures_of(item),
            item.get_closest_marker("ends_instance") is not None,
        )
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    _last_users.update({name: item for item in session.items for name in _fixtures_of(item)})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield
    for name in [name for name in _running if _last_users.get(name) is item]:
        _running.pop(name).close()


def _fixtures_of(item: pytest.Item) -> set[str]:
    """Every fixture of a test, also those that it is parametrised by."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {*getattr(item, "fixturenames", ()), *(name for name in given if isinstance(name, str))}
