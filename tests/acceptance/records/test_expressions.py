"""Expressions over HTTP and on the command line, on the running product."""

from typing import Any

import pytest

from tests.acceptance.records.shop import Shop
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product

VALIDATE, EVALUATE = "/control/expressions/validate", "/control/expressions/evaluate"


@pytest.fixture(scope="module")
def shop(product: Product) -> Shop:
    made = Shop(product)
    made.fill()
    return made


def test_a_valid_expression_says_what_it_reads(shop: Shop) -> None:
    body = {
        "expression": "total > 10 && status <> previous.status",
        "collectionId": shop.name("orders"),
    }
    assert shop.owner.http.post(VALIDATE, json=body).json() == {
        "valid": True,
        "fields": ["status", "total"],
        "names": ["previous"],
    }


@pytest.mark.parametrize(
    ("expression", "says", "position"),
    [
        ("total >", "character 8: the expression ends too early", 7),
        ("NOSUCH(total)", "there is no function NOSUCH", 6),
        ("REGEX(status, '(')", "not a pattern: missing )", 14),
        ("+".join(["a"] * 1_000), "nested too deep", None),
        (" && ".join(["a"] * 600), "parts", None),
        ("ttal > 1", "has no field ttal; did you mean total?", None),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    shop: Shop, expression: str, says: str, position: int | None
) -> None:
    body = {"expression": expression, "collectionId": shop.name("orders")}
    found = shop.owner.http.post(VALIDATE, json=body).json()
    assert not found["valid"]
    assert says in found["error"]
    assert position is None or found["position"] == position


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("total * 2", 120),
        ("status = 'open' && total > 10", True),
        ("IF(ISBLANK(customer_id), 'nobody', UPPER(status))", "OPEN"),
        ("changed('status') && previous.status == 'new'", True),
        ("record.version == 3 && id == 'o1'", True),
        ("has(record.total) && !has(record.nothing)", True),
        ("REGEX(status, '[a-z]+')", True),
        ("now > '2026'", True),
    ],
)
def test_an_expression_is_evaluated_on_a_stored_record(
    shop: Shop, expression: str, value: Any
) -> None:
    body = {
        "expression": expression,
        "collectionId": shop.ids["orders"],
        "recordId": "o1",
        "values": {"changed": ["status"], "previous": {"status": "new"}},
    }
    assert shop.owner.http.post(EVALUATE, json=body).json() == {"value": value}


def test_an_expression_is_evaluated_on_a_record_that_is_sent_along(shop: Shop) -> None:
    body = {"expression": "tags.exists(t, t == 'x')", "record": {"tags": ["x"]}}
    assert shop.owner.http.post(EVALUATE, json=body).json() == {"value": True}
    assert shop.owner.http.post(EVALUATE, json={"expression": "1 + 2"}).json() == {"value": 3}


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (
            {"expression": "1 / n", "record": {"n": 0}},
            "expression",
            "character 3: division by zero",
        ),
        ({"expression": "a &&"}, "expression", "ends too early"),
        ({"expression": "1", "recordId": "o1"}, "body", "collectionId"),
        ({"expression": "1", "values": {"record": {}}}, "values.record", "one of changed, ctx"),
        ({"expression": ""}, "expression", "at least 1 character"),
        ({"expression": "1", "record": []}, "record", ""),
        ({"expression": "a * b", "record": {"a": 2**62, "b": 4}}, "expression", "out of the range"),
    ],
)
def test_what_has_no_value_says_why(
    shop: Shop, body: dict[str, Any], field: str, says: str
) -> None:
    problem = assert_problem(shop.owner.http.post(EVALUATE, json=body), 422, "invalid")
    assert faulty_fields(problem) == {field}
    assert says in problem["detail"]


def test_a_record_that_is_missing_is_not_found(shop: Shop) -> None:
    body = {"expression": "1", "collectionId": shop.name("orders"), "recordId": "none"}
    assert_problem(shop.owner.http.post(EVALUATE, json=body), 404, "not_found")


def test_the_command_line_shows_the_place(shop: Shop) -> None:
    bad = shop.owner.cli("expressions", "validate", "total > )", check=False)
    assert bad.returncode == 1
    assert bad.stdout.splitlines() == ["character 9: unexpected ')'", "total > )", "        ^"]
    good = shop.owner.cli(
        "expressions", "validate", "total > 1", "--collection", shop.name("orders")
    )
    assert good.stdout.strip() == "valid, reads total"
    value = shop.owner.cli(
        "expressions",
        "evaluate",
        "total + 1",
        "--collection",
        shop.name("orders"),
        "--record",
        "o1",
    )
    assert value.stdout.strip() == "61"
