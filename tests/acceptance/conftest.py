"""Instances that acceptance tests share: one for each placement, started when first needed."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.support import event_types
from tests.support.dispatching import DispatchApi, make_pool
from tests.support.gathering import GatherClient, gather_client_of
from tests.support.instances import until_last_use
from tests.support.operations import Operation, operations_of
from tests.support.problem import server_errors
from tests.support.product import Product, running_product
from tests.support.receiver import receiving
from tests.support.shop import CliTenant
from tests.support.tenants import another_tenant, client, the_anchor


@pytest.fixture(scope="session")
def dedicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Muster with an actor for each correlation, and with a broker of its own."""
    folder = tmp_path_factory.mktemp("dedicated") / ".muster"
    flags = ("--placement", "dedicated", "--kafka", "embedded")
    start = running_product(folder, *flags, idle_after="2")
    with until_last_use("dedicated", start) as running:
        yield running


@pytest.fixture(params=["sharded", "dedicated"])
def placed(request: pytest.FixtureRequest) -> Product:
    """The same test, once for each placement."""
    name = "product" if request.param == "sharded" else "dedicated"
    running: Product = request.getfixturevalue(name)
    return running


@pytest.fixture(scope="session")
def stranger(product: Product) -> Iterator[Product]:
    """The same instance, as the admin of another tenant sees it."""
    with another_tenant(product) as other:
        yield other


@pytest.fixture(scope="session")
def anchor(product: Product) -> Iterator[Product]:
    """The same instance, as the admin of the anchor sees it."""
    with the_anchor(product) as admin:
        yield admin


@pytest.fixture(scope="session")
def ward(product: Product) -> Iterator[Product]:
    """The same instance, as the admin of the tenant that gathers sees it."""
    with another_tenant(product) as other:
        yield other


@pytest.fixture(scope="session")
async def gatherings(ward: Product) -> AsyncIterator[GatherClient]:
    """That tenant with its resources, which are played here."""
    async with gather_client_of(ward) as made:
        yield made


@pytest.fixture
def clients(product: Product) -> Iterator[Callable[[str | None], httpx.Client]]:
    """Clients by their key."""
    with ExitStack() as stack:
        yield lambda key: stack.enter_context(client(product, key))


@pytest.fixture(scope="session")
def operations(product: Product) -> dict[str, Operation]:
    """Every operation of the OpenAPI document by its id."""
    return operations_of(product)


@pytest.fixture(scope="module")
def never_a_500(product: Product) -> Iterator[None]:
    """The product's own count of its failures must not grow while these tests run."""
    before = server_errors(product)
    yield
    assert server_errors(product) == before


@pytest.fixture
def code(product: Product) -> str:
    """The code of an event type without versions."""
    made: str = event_types.create(product)["code"]
    return made


@pytest.fixture(scope="module")
def shipper(product: Product) -> Iterator[DispatchApi]:
    """A tenant with a pool of its own."""
    with another_tenant(product) as tenant, receiving() as receiver:
        yield DispatchApi(tenant, receiver, make_pool(tenant, concurrency=20))


@pytest.fixture(scope="module")
def shop(product: Product) -> Iterator[CliTenant]:
    """A tenant at its terminal."""
    with another_tenant(product) as tenant, receiving() as receiver:
        yield CliTenant(tenant, receiver)
