"""One instance for all faults: each has to leave it as it found it."""

from collections.abc import Iterator

import pytest

from tests.support.product import Product, running_product


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster as `muster up` starts it, only less patient, so that the tests are over sooner."""
    folder = tmp_path_factory.mktemp("chaos") / ".muster"
    with running_product(folder, "--shards", "2", request_timeout="4", sweep_every="2") as running:
        yield running
