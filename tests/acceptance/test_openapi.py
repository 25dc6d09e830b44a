"""The OpenAPI document tells the truth: requests made from it meet no 500 and no surprise."""

from collections.abc import Iterator

import httpx
import pytest
import requests
import schemathesis

from tests.support.product import Product
from tests.support.tenants import add_tenant

SEED = 20_240_613
EXAMPLES = 15
# Streams and long polls are held open on purpose; the requests made up here name no wait that is.
LONGEST = 20


@pytest.fixture(scope="module")
def fuzzed(product: Product) -> Iterator[Product]:
    """A tenant of its own: what is made up here may register, cancel and revoke as it likes."""
    _, key = add_tenant(product)
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=product.url, headers=headers, timeout=30, trust_env=False) as http:
        yield Product(product.url, key, product.pid, product.data_dir, http)


@pytest.fixture(scope="module")
def api_schema(fuzzed: Product) -> schemathesis.BaseSchema:
    config = schemathesis.Config.from_dict(
        {
            "seed": SEED,
            "base-url": fuzzed.url,
            "generation": {"max-examples": EXAMPLES, "no-shrink": True, "deterministic": True},
            "request-timeout": LONGEST,
        }
    )
    return schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json", config=config)


schema = schemathesis.pytest.from_fixture("api_schema")


@schema.parametrize()
def test_every_operation_answers_as_documented(case: schemathesis.Case, fuzzed: Product) -> None:
    with requests.Session() as session:
        session.trust_env = False
        case.call_and_validate(session=session, headers={"Authorization": f"Bearer {fuzzed.key}"})
