import pytest

from tests.acceptance.records.people import AGE, NAME, People, three_people
from tests.support.product import Product


@pytest.fixture(scope="session")
def new_index(product: Product) -> People:
    """A collection with an index that is filled a minute later, while other tests run."""
    people = three_people(product)
    assert people.change(NAME, {**AGE, "indexed": True}).json()["indexBuilding"]
    return people
