"""Instances that tests of several folders share: each is started when first needed, and once."""

from collections.abc import Iterator

import pytest

from tests.support.kafka import Kafka, unique
from tests.support.product import Product, running_product

IMPATIENCE = 4
SOURCE_CONNECTIONS = 1_000


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with its defaults, but always two shards: batches have to be put together again."""
    folder = tmp_path_factory.mktemp("sharded") / ".muster"
    with running_product(folder, "--shards", "2") as running:
        yield running


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """An instance for faults: each has to leave it as it found it.

    It is Muster as `muster up` starts it, only less patient, so that the tests are over sooner.
    """
    folder = tmp_path_factory.mktemp("mortal") / "with spaces" / ".muster"
    with running_product(folder, "--shards", "2", request_timeout="4", sweep_every="2") as running:
        yield running


@pytest.fixture(scope="session")
def impatient(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster that waits for nobody for long and whose callers, of one address, are not spared."""
    settings = {
        "request_timeout": str(IMPATIENCE),
        "source_connections": str(SOURCE_CONNECTIONS),
        "kafka_bootstrap": kafka.bootstrap,
        "kafka_group": unique("muster"),
    }
    folder = tmp_path_factory.mktemp("impatient") / ".muster"
    with running_product(folder, "--shards", "1", **settings) as running:
        yield running
