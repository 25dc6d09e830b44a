"""Definitions that change while there are records, and what records have together."""

from typing import Any

import pytest

from tests.acceptance.records.people import AGE, ANY, NAME, People, three_people
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product


@pytest.fixture
def people(product: Product) -> People:
    return three_people(product)


def test_a_preview_reads_the_records(people: People) -> None:
    seen = people.preview({**NAME, "unique": True}, {**AGE, "min": 1, "required": True})
    assert (seen["breaking"], seen["recordsChecked"], seen["complete"]) == (True, 3, True)
    assert seen["misfits"] == 2
    assert {(one["recordId"], one["field"]) for one in seen["examples"]} == {
        ("p0", "age"),
        ("p2", "name"),
    }


def test_a_field_becomes_unique_if_its_values_are(people: People) -> None:
    assert_problem(people.change({**NAME, "unique": True}, AGE), 409, "values_not_unique")
    changed = people.change(NAME, {**AGE, "unique": True})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    again = people.add(name="Di", age=1)
    assert again.status_code == 409, again.text
    assert people.add(name="Di", age=9).status_code == 201


def test_the_next_write_goes_by_the_new_definition(people: People) -> None:
    more = {"name": "city", "type": "PICKLIST", "values": ["Rome", "Oslo"], "required": True}
    assert people.change(NAME, AGE, more).status_code == 200
    refused = assert_problem(people.add(name="Di"), 422, "invalid_record")
    assert faulty_fields(refused) == {"city"}
    assert people.add(name="Di", city="Oslo").json()["city"] == "Oslo"
    assert people.http.get(f"{people.records}/p0").json()["name"] == "Jo"
    kept = people.http.patch(f"{people.records}/p0", json={"age": 5}, headers=ANY)
    assert faulty_fields(assert_problem(kept, 422, "invalid_record")) == {"city"}


def test_an_index_is_built_in_the_background(new_index: People) -> None:
    """It begins a minute later; how it ends is told by `test_value_indexes.py`."""
    assert new_index.http.get(new_index.path).json()["indexBuilding"]
    found = new_index.http.get(new_index.records, params={"age": 1}).json()
    assert [one["id"] for one in found["items"]] == ["p1"]


def test_a_record_sums_up_its_details(product: Product) -> None:
    orders = People(product, NAME)
    up = {"name": "order_id", "type": "MASTER_DETAIL", "target": orders.name}
    lines = People(product, up, {"name": "amount", "type": "CURRENCY"})

    def summary(name: str, function: str, **more: str) -> dict[str, Any]:
        of = {"collection": lines.name, "relationship": "order_id", "function": function, **more}
        return {"name": name, "type": "ROLLUP_SUMMARY", "rollup": of}

    total = summary("total", "SUM", field="amount")
    assert orders.change(NAME, total, summary("lines", "COUNT")).status_code == 200
    for number in range(2):
        assert orders.add(id=f"o{number}", name="x").status_code == 201
    for amount in (10, 2.5):
        assert lines.add(order_id="o0", amount=amount).status_code == 201
    shown = orders.http.get(f"{orders.records}/o0").json()
    assert (shown["total"], shown["lines"]) == (12.5, 2)
    empty = orders.http.get(f"{orders.records}/o1").json()
    assert (empty["total"], empty["lines"]) == (None, 0)
