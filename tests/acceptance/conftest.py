"""Instances that acceptance tests share: one for each placement, started when first needed."""

from collections.abc import Iterator

import pytest

from tests.support.product import Product, running_product


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with its defaults."""
    with running_product(tmp_path_factory.mktemp("sharded") / ".muster") as running:
        yield running


@pytest.fixture(scope="session")
def dedicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with an actor for each correlation."""
    folder = tmp_path_factory.mktemp("dedicated") / ".muster"
    with running_product(folder, "--placement", "dedicated", idle_after="2") as running:
        yield running


@pytest.fixture(params=["sharded", "dedicated"])
def placed(request: pytest.FixtureRequest) -> Product:
    """The same test, once for each placement."""
    name = "product" if request.param == "sharded" else "dedicated"
    running: Product = request.getfixturevalue(name)
    return running
