"""An instance and the broker that it reads from, which tests may stop."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from host.kafka import apache
from host.kafka.selection import Runtime
from tests.support.instances import until_last_use
from tests.support.kafka import IN_TESTS, OwnKafka
from tests.support.product import Product, running_product

LATE = "late-orders"
DEAD, ENDS = "dead-letters", "muster.correlation.completed"
GROUP = "muster-at-the-terminal"


@pytest.fixture(scope="session")
def broker(
    kafka_runtime: Runtime | str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnKafka]:
    """A broker that these tests may stop."""
    if not isinstance(kafka_runtime, Runtime):
        pytest.skip(f"needs Apache Kafka, but {kafka_runtime}")
    folder = tmp_path_factory.mktemp("kafka")
    started = apache.start(folder, IN_TESTS, kafka_runtime.java, kafka_runtime.jars)
    own = OwnKafka(started, kafka_runtime)
    for topic in (DEAD, ENDS):
        asyncio.run(own.create_topic(topic, partitions=1))
    yield own
    asyncio.run(own.kill())


@pytest.fixture(scope="session")
def muster(broker: OwnKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster, reading from it."""
    folder = tmp_path_factory.mktemp("muster") / ".muster"
    with until_last_use("muster", reading_from(broker, folder)) as running:
        yield running


def reading_from(broker: OwnKafka, data_dir: Path) -> AbstractContextManager[Product]:
    """Start Muster on this folder, for the first time or anew."""
    settings = {
        "kafka_topics": f"{LATE},^theirs.*=theirs",
        "kafka_completions": "all",
        "kafka_dead_letter_topic": DEAD,
        "kafka_group": GROUP,
    }
    return running_product(data_dir, "--kafka", broker.bootstrap, "--shards", "1", **settings)
