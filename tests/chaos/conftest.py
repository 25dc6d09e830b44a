"""An instance whose database and Kafka are others': each fault has to leave it as it found it."""

import os
from collections.abc import Iterator

import pytest

from tests.chaos.far_database import FarProduct, running_far_product
from tests.support.kafka import Kafka


@pytest.fixture(scope="session")
def far(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarProduct]:
    """Muster on a PostgreSQL pair and a Kafka of others, to which things happen."""
    with running_far_product(tmp_path_factory.mktemp("far"), kafka) as running:
        yield running


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked `long` belongs to `make chaos`."""
    if os.environ.get("MUSTER_CHAOS") == "long":
        return
    long = [item for item in items if item.get_closest_marker("long")]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)
