"""Indexes of collections that have records, once they are filled."""

from tests.acceptance.records.people import People
from tests.support.product import until


def test_a_new_index_is_filled(new_index: People) -> None:
    def is_filled() -> bool:
        return not new_index.http.get(new_index.path).json()["indexBuilding"]

    until("the index", is_filled, within=150)
    found = new_index.http.get(new_index.records, params={"sort": "-age"})
    assert [one["id"] for one in found.json()["items"]] == ["p2", "p1", "p0"]
