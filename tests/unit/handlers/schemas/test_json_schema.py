"""JSON Schema: what is refused when it is saved, and what payloads are told."""

import json
from typing import Any

import pytest

from handlers.schemas import json_schema
from handlers.schemas.interface import (
    MAX_MISMATCHES,
    CompiledSchema,
    InvalidSchema,
    Mismatch,
    within,
)
from handlers.schemas.json_schema import MAX_LISTED, MAX_NESTING

JSON = "application/json"
ORDER = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 0},
        "items": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
    },
    "required": ["amount"],
}
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def compiled(schema: Any) -> CompiledSchema:
    outcome = json_schema.compile(schema if isinstance(schema, str) else json.dumps(schema))
    assert isinstance(outcome, CompiledSchema), outcome
    return outcome


def reason(schema: Any) -> str:
    outcome = json_schema.compile(schema if isinstance(schema, str) else json.dumps(schema))
    assert isinstance(outcome, InvalidSchema)
    return outcome.reason


def check(schema: Any, payload: Any, content_type: str = JSON) -> list[Mismatch]:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return json_schema.load(compiled(schema).form)(raw, content_type)


def test_a_payload_that_fits_has_no_mismatch() -> None:
    assert check(ORDER, {"amount": 3, "items": [{"sku": "a"}]}) == []
    assert check(True, [1]) == []


def test_each_mismatch_says_where_and_what_was_expected() -> None:
    assert check(ORDER, {"amount": "3", "items": [{"sku": "a"}, {}]}) == [
        Mismatch("amount", 'value is not of type "number"'),
        Mismatch("items[1]", '"sku" is a required property'),
    ]
    assert check(ORDER, {}) == [Mismatch("", '"amount" is a required property')]


def test_what_the_payload_is_made_of_stays_out_of_the_answer() -> None:
    (one,) = check({"enum": ["a"]}, "secret" * 1000)
    assert "secret" not in one.expected
    (long,) = check({"properties": {"x" * 1000: False}}, {"x" * 1000: 1})
    assert len(long.path) <= 300


def test_the_list_of_mismatches_is_bounded_and_one_of_a_large_payload() -> None:
    schema = {"items": {"type": "string"}}
    assert len(check(schema, [0] * 100)) == MAX_MISMATCHES
    assert len(check(schema, [0] * MAX_LISTED)) == 1


def test_draft_7_is_the_default_and_others_are_named() -> None:
    tuple_form = {"items": [{"type": "string"}]}  # a list of schemas until 2020-12
    assert check(tuple_form, [1]) != []
    prefix = {"prefixItems": [{"type": "string"}]}  # not known before
    assert check(prefix, [1]) == []
    assert check(prefix | {"$schema": DRAFT_2020}, [1]) != []
    assert check({"$schema": "http://json-schema.org/draft-07/schema#"}, 1) == []
    assert "$schema must be one of" in reason({"$schema": "http://127.0.0.1:9/own"})
    assert "$schema must be one of" in reason({"$schema": 7})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "an object, true or false"),
        ('"x"', "an object, true or false"),
        ('{"type": "strin"}', 'type: "strin"'),
        ('{"minLength": -1}', "minLength"),
        ('{"pattern": "["}', "pattern"),
        ('{"maximum": 1e999}', "not JSON"),
        ('{"$ref": "#/definitions/none"}', "does not exist"),
        ('{"$ref": "http://127.0.0.1:9/x.json"}', "disabled"),
        ('{"$ref": "file:///etc/passwd"}', "disabled"),
        ('{"$ref": "other.json"}', "other.json"),
        ('{"$id": "http://127.0.0.1:9/a", "allOf": [{"$ref": "b"}]}', "127.0.0.1:9/b"),
        ("[" * 5000 + "]" * 5000, "nested"),
        ('{"not":' * 100 + "{}" + "}" * 100, f"deeper than {MAX_NESTING}"),
    ],
)
def test_what_cannot_be_a_schema_is_told_why(text: str, told: str) -> None:
    assert told in reason(text)


def test_patterns_that_explode_elsewhere_take_no_time_here() -> None:
    evil = {"pattern": "^(a+)+$"}
    assert compiled(evil).weight is not None
    assert check(evil, "a" * 100_000 + "b") != []


def test_patterns_that_need_to_try_give_up_and_are_never_quick() -> None:
    looking = {"pattern": "^(?!x)y+$"}
    assert compiled(looking).weight is None
    assert check(looking, "yyy") == []
    evil = {"pattern": r"^(a|a|aa)*(b)\2$"}
    assert compiled(evil).weight is None
    (gave_up,) = check(evil, "a" * 200)
    assert gave_up.path == ""


def test_a_pattern_too_large_to_compile_is_refused() -> None:
    assert "pattern" in reason({"pattern": "((a{1000}){1000}){1000}"})


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'"\\ud800"', b"NaN", b"1e999", b"9" * 5000])
def test_what_is_no_json_does_not_fit(raw: bytes) -> None:
    (one,) = check({}, raw)
    assert one.expected.startswith("readable JSON")


def test_a_payload_nested_too_deeply_does_not_fit() -> None:
    (one,) = check({}, b"[" * 100_000 + b"]" * 100_000)
    assert "nested" in one.expected


def test_large_numbers_are_compared_exactly() -> None:
    assert check({"maximum": 10}, b"9" * 300) != []
    assert check({"type": "integer"}, b"9" * 300) == []


def test_a_payload_of_another_kind_does_not_fit() -> None:
    assert check({}, {}, "application/cloudevents+json; charset=utf-8") == []
    assert check({}, {}, "application/xml") == [
        Mismatch("", "application/json, not application/xml")
    ]
    assert check({}, {}, "") == [Mismatch("", "application/json, not nothing")]


def test_the_same_text_has_the_same_key() -> None:
    assert compiled(ORDER).key == compiled(ORDER).key
    assert compiled(ORDER).key != compiled({}).key


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", "data"),
        ("total", "data.total"),
        ("[0].id", "data[0].id"),
        ("/order/id", "data/order/id"),
    ],
)
def test_a_place_in_a_payload_is_a_place_in_its_event(path: str, place: str) -> None:
    assert within("data", path) == place
