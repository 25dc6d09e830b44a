from typing import Any

import pytest

from serve_app.http.field_errors import field_errors_of


def fault(**error: Any) -> dict[str, Any]:
    base = {"type": "x", "loc": ("a",), "msg": "Input should be small", "input": 1}
    return field_errors_of([base | error])[0].document()


@pytest.mark.parametrize(
    ("loc", "path"),
    [
        (("body", "data", "events", 3, "name"), "data.events[3].name"),
        (("query", "limit"), "limit"),
        (("data", "body"), "data.body"),
        (("resources", 0, "(resource)", "url"), "resources[0].url"),
        (("auth", "bearer", "token"), "auth.token"),
        (("headers", "bearer"), "headers.bearer"),
        (("data", "outputMapping", "", "[key]"), "data.outputMapping['']"),
        ((), "body"),
        (("body",), "body"),
    ],
)
def test_a_field_is_named_as_its_author_wrote_it(loc: tuple[str | int, ...], path: str) -> None:
    assert fault(loc=loc)["field"] == path


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "missing", "msg": "Field required"}, "is required"),
        ({"type": "extra_forbidden", "msg": "Extra"}, "a field that exists; this one is unknown"),
        ({"type": "value_error", "msg": "Value error, url is required"}, "url is required"),
        ({"msg": "Input should be a valid date"}, "a valid date"),
        ({"type": "int_parsing", "msg": "Input should be a valid integer"}, "a whole number"),
        ({"type": "string_too_short", "ctx": {"min_length": 1}}, "at least 1 character"),
        ({"type": "string_too_long", "ctx": {"max_length": 3}}, "at most 3 characters"),
        ({"type": "too_short", "ctx": {"min_length": 1}}, "at least 1 item"),
        ({"type": "too_long", "ctx": {"max_length": 20}}, "at most 20 items"),
        ({"type": "greater_than_equal", "ctx": {"ge": 1}}, "at least 1"),
        ({"type": "less_than_equal", "ctx": {"le": 500}}, "at most 500"),
        (
            {"type": "string_pattern_mismatch", "ctx": {"pattern": r"^https?://[^\s]+$"}},
            "an http:// or https:// URL without user name, spaces and fragment",
        ),
        (
            {"type": "string_pattern_mismatch", "ctx": {"pattern": "^[ab]$"}},
            "a value that matches ^[ab]$",
        ),
    ],
)
def test_what_is_expected_is_said_without_the_library_s_preamble(
    error: dict[str, Any], expected: str
) -> None:
    assert fault(**error)["expected"] == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-1, -1),
        ("short", "short"),
        ("x" * 500, "x" * 100 + "…"),
        ({"secret": "s"}, "an object"),
        (["s"], "a list"),
        (None, "null"),
        (10**40, "int"),
    ],
)
def test_the_value_is_shown_to_be_recognised_and_never_in_full(value: Any, shown: Any) -> None:
    assert fault(input=value)["got"] == shown


def test_a_missing_value_is_not_shown() -> None:
    assert "got" not in fault(type="missing", input={"a": 1})
