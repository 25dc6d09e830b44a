"""Instances that tests of several folders share: each is started when first needed, and once."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.kafka import Kafka, unique
from tests.support.product import Product, running_product

IMPATIENCE = 4
SOURCE_CONNECTIONS = 1_000
COMPLETION_TOPIC = "ends"


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with its defaults, but always two shards: batches have to be put together again."""
    folder = tmp_path_factory.mktemp("sharded") / ".muster"
    with running_product(folder, "--shards", "2") as running:
        yield running


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """An instance for faults: each has to leave it as it found it.

    It is Muster as `muster up` starts it, only less patient, so that the tests are over sooner, and
    with all that can be logged, in which no secret may be found.
    """
    folder = tmp_path_factory.mktemp("mortal") / "with spaces" / ".muster"
    settings = {"request_timeout": "4", "sweep_every": "2", "log_level": "DEBUG"}
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
    with running_product(folder, "--shards", "1", **settings) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that stop a shared instance after all others, however they were given."""
    items.sort(key=lambda item: item.get_closest_marker("ends_instance") is not None)
