"""One tenant, one browser and the demo's resources for all tests of pages."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.support.chromium import ADVICE, find_chromium
from tests.support.product import Product
from tests.support.tenants import another_tenant
from tests.ui.gather_page import GatherPage, visiting
from tools.demo.gathers.resource import DemoResources

# A busy machine is no failure of the page.
expect.set_options(timeout=15_000)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is. Before anything else is started, for without it nothing has to be."""
    found = find_chromium()
    if found is None:
        complaint = f"no Chromium was found, so pages cannot be tested; {ADVICE}"
        if os.environ.get("CI"):
            pytest.fail(complaint, pytrace=False)
        pytest.skip(complaint)
    return found


@pytest.fixture(scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """A browser without a window. Playwright leaves out its sandbox, which root could not have."""
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium)
        yield started
        await started.close()


@pytest.fixture(scope="session")
def product(chromium: str, product: Product) -> Iterator[Product]:
    """Muster as the admin of a tenant that nobody else has sees it."""
    with another_tenant(product) as own:
        yield own


@pytest.fixture(scope="session")
def stranger(product: Product) -> Iterator[Product]:
    """A tenant that has no resources."""
    with another_tenant(product) as other:
        yield other


@pytest.fixture(scope="session")
async def resources(product: Product) -> AsyncIterator[DemoResources]:
    """The three resources that the journals come from."""
    async with DemoResources() as running:
        for number in (1, 2, 3):
            reply = product.http.put(
                f"/api/resources/resource-{number}", json={"url": running.url_of(number)}
            )
            assert reply.status_code == 201, reply.text
        yield running


@pytest.fixture
async def gather(
    browser: Browser, product: Product, resources: DemoResources
) -> AsyncIterator[GatherPage]:
    """The page, opened with the admin's key. It asks nobody else, and has nothing to complain of.

    A test that provokes a complaint takes it out of the list.
    """
    async with visiting(browser, product.url, product.key) as shown:
        yield shown
        assert shown.strangers() == set()
        assert shown.complaints == []
