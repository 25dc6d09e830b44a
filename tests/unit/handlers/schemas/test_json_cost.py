"""Which schemas are known to be cheap, and which could take for ever."""

from typing import Any

import pytest

from handlers.schemas.json_cost import estimate_cost, pattern_cost

# What ten milliseconds allow for a payload of a thousand bytes.
CHEAP = 20_000


def doubling(steps: int) -> dict[str, Any]:
    """Each definition uses the next one twice."""
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(steps)}
    return {"$ref": "#/definitions/d0", "definitions": twice | {f"d{steps}": {"type": "null"}}}


def weight(schema: Any) -> int:
    found = estimate_cost(schema)
    assert found is not None
    return found


def test_an_ordinary_schema_is_cheap() -> None:
    address = {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}}
    schema = {
        "type": "object",
        "required": ["id", "lines"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "to": {"$ref": "#/definitions/address"},
            "bill": {"$ref": "#/definitions/address"},
            "lines": {"type": "array", "items": {"type": "object"}, "maxItems": 100},
            "state": {"enum": ["new", "paid", "sent"]},
        },
        "definitions": {"address": address},
        "additionalProperties": False,
    }
    assert weight(schema) < CHEAP


def test_definitions_that_double_are_not() -> None:
    assert weight(doubling(3)) < CHEAP
    assert weight(doubling(20)) > 100 * CHEAP
    assert weight(doubling(60)) == 10**9  # told at once, however much it is


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"child": {"$ref": "#"}}},
        {"allOf": [{"items": {"$ref": "#/allOf/0"}}]},
        {"$dynamicRef": "#node"},
        {"$recursiveRef": "#"},
        {"$ref": "#named"},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"$ref": "#/nowhere"},
        {"$ref": "#/allOf/7", "allOf": [{}]},
        {"properties": {"a": {"$id": "http://example.org/other"}}},
    ],
)
def test_what_leads_back_or_elsewhere_has_no_bound(schema: Any) -> None:
    assert estimate_cost(schema) is None


def test_a_chain_too_long_to_follow_has_no_bound() -> None:
    links = {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(5000)}
    assert estimate_cost({"$ref": "#/definitions/d0", "definitions": links | {"d5000": {}}}) is None


def test_references_are_followed_by_name_and_place() -> None:
    odd = {"$ref": "#/definitions/a~1b%20c/allOf/0"}
    schema = odd | {"definitions": {"a/b c": {"allOf": [{"enum": list(range(1000))}]}}}
    assert weight(schema) > 2_000


def test_branches_add_up_and_properties_do_not() -> None:
    heavy = {"enum": list(range(1000))}
    by_name = weight({"properties": {"a": heavy, "b": heavy}})
    assert by_name < weight({"allOf": [heavy, heavy]})
    assert by_name < weight({"patternProperties": {"a": heavy, "b": heavy}})
    assert weight({"items": [heavy, heavy]}) < weight({"anyOf": [heavy, heavy]})
    assert weight({"dependencies": {"a": heavy, "b": ["c"]}}) > weight(heavy)
    assert weight({"if": heavy, "then": heavy, "else": True, "not": heavy}) > 3 * 2_000
    assert weight({"unevaluatedProperties": heavy}) > 2 * 2_000
    assert weight({"format": "regex"}) > CHEAP


def test_what_patterns_repeat_is_multiplied() -> None:
    assert pattern_cost(None) == 0
    assert pattern_cost("^[A-Z]{3}-[0-9]{8}$") < 100
    assert pattern_cost("(a{1000}){1000}") > 500_000
    assert pattern_cost("a{1,}") == 1
    assert pattern_cost("(a{999999999}){999999999}{99}") > 10**7
