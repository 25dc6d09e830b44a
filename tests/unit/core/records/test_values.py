"""Values of all field types: what is stored, and what is refused."""

from typing import Any

import pytest

from core.records.field import FieldDefinition, FieldType
from core.records.json_values import InvalidValueError, check_json
from core.records.values import is_record_id, normalize_value, number_text

T = FieldType
SHORT = (
    "a number from 1e-40 to 1e40, or its negative, within a list or an object; a field of type "
    "DOUBLE holds any other"
)


def field(type_: FieldType, **settings: Any) -> FieldDefinition:
    return FieldDefinition(name="f", type=type_, **settings)


@pytest.mark.parametrize(
    ("type_", "given", "stored"),
    [
        (T.STRING, "häuser 🏠", "häuser 🏠"),
        (T.RICH_TEXT, "<b>bold</b>", "<b>bold</b>"),
        (T.ENCRYPTED, "secret", "secret"),
        (T.PICKLIST, "open", "open"),
        (T.MULTI_PICKLIST, ["a", "b"], ["a", "b"]),
        (T.INTEGER, -(2**31), -(2**31)),
        (T.INTEGER, 5.0, 5),
        (T.LONG, 2**53 + 1, 2**53 + 1),
        (T.LONG, 2**63 - 1, 2**63 - 1),
        (T.DOUBLE, 2**53, 2**53),
        (T.DOUBLE, 1.5, 1.5),
        (T.CURRENCY, 12.34, 12.34),
        (T.PERCENT, 99, 99),
        (T.BOOLEAN, False, False),
        (T.DATE, "2024-02-29", "2024-02-29"),
        (T.DATETIME, "2026-01-31T13:30:00+01:00", "2026-01-31T12:30:00.000000Z"),
        (T.DATETIME, "2026-01-31T12:30:00.5Z", "2026-01-31T12:30:00.500000Z"),
        (T.JSON, {"a": [1, None, {"b": 2**53 + 1}]}, {"a": [1, None, {"b": 2**53 + 1}]}),
        (T.ARRAY, [1, "a", None], [1, "a", None]),
        (T.PHONE, "+1 (555) 0100", "+1 (555) 0100"),
        (T.EMAIL, "jo@example.com", "jo@example.com"),
        (T.URL, "https://example.com/a?b=c", "https://example.com/a?b=c"),
        (T.EXTERNAL_ID, "SAP/4711", "SAP/4711"),
        (T.GEOLOCATION, {"latitude": 52.5, "longitude": 13}, {"latitude": 52.5, "longitude": 13}),
        (T.REFERENCE, "0HZXEQ5Y8JY5Z", "0HZXEQ5Y8JY5Z"),
        (T.LOOKUP, "order-1", "order-1"),
        (T.MASTER_DETAIL, "a.b:c_d", "a.b:c_d"),
    ],
)
def test_a_value_of_its_type_is_stored(type_: FieldType, given: Any, stored: Any) -> None:
    found = normalize_value(field(type_), given)
    assert found == stored
    assert type(found) is type(stored)


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        (T.STRING, 5, "a text"),
        (T.STRING, "a\x00b", "a text without NUL characters"),
        (T.STRING, "\ud800", "a text without half of a surrogate pair"),
        (T.INTEGER, 2**31, "a whole number from -2^31 to 2^31 - 1"),
        (T.INTEGER, True, "a whole number from -2^31 to 2^31 - 1"),
        (T.INTEGER, 5.5, "a whole number from -2^31 to 2^31 - 1"),
        (T.INTEGER, "5", "a whole number from -2^31 to 2^31 - 1"),
        (T.LONG, 2**63, "a whole number from -2^63 to 2^63 - 1"),
        (T.LONG, 1e300, "a whole number from -2^63 to 2^63 - 1"),
        (T.DOUBLE, "1.5", "a number"),
        (T.DOUBLE, True, "a number"),
        (T.DOUBLE, float("nan"), "a number"),
        (T.BOOLEAN, 1, "true or false"),
        (T.BOOLEAN, "true", "true or false"),
        (T.DATE, "2026-02-30", "a date such as 2026-01-31"),
        (T.DATE, "20260131", "a date such as 2026-01-31"),
        (T.DATE, 20260131, "a date such as 2026-01-31"),
        (T.DATETIME, "2026-01-31T12:30:00", "a time with its offset, such as 2026-01-31T12:30:00Z"),
        (T.DATETIME, "yesterday", "a time with its offset, such as 2026-01-31T12:30:00Z"),
        (
            T.DATETIME,
            "0001-01-01T00:00:00+14:00",
            "a time with its offset, such as 2026-01-31T12:30:00Z",
        ),
        (T.DATETIME, 5, "a time with its offset, such as 2026-01-31T12:30:00Z"),
        (T.ARRAY, {"a": 1}, "a list"),
        (T.PHONE, "call me", "a telephone number such as +1 555 0100"),
        (T.EMAIL, "jo@@example.com", "an e-mail address such as jo@example.com"),
        (T.EMAIL, f"jo@{'a' * 300}.com", "an e-mail address such as jo@example.com"),
        (T.URL, "ftp://example.com", "an http:// or https:// URL"),
        (T.EXTERNAL_ID, "", "1 to 255 characters"),
        (T.LOOKUP, "a/b", "the id of a record of None"),
        (T.LOOKUP, 7, "the id of a record of None"),
        (T.FORMULA, 1, "nothing: a FORMULA is computed and cannot be set"),
        (T.ROLLUP_SUMMARY, 1, "nothing: a ROLLUP_SUMMARY is computed and cannot be set"),
        (T.AUTO_NUMBER, 1, "nothing: a AUTO_NUMBER is computed and cannot be set"),
    ],
)
def test_another_value_is_refused(type_: FieldType, given: Any, expected: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        normalize_value(field(type_), given)
    assert caught.value.expected == expected


@pytest.mark.parametrize("given", [2**53 + 1, 2**64, -(2**63) - 1])
def test_a_double_refuses_what_it_cannot_hold_exactly(given: int) -> None:
    with pytest.raises(InvalidValueError, match="holds exactly"):
        normalize_value(field(T.DOUBLE), given)


@pytest.mark.parametrize(
    "given",
    [
        {"latitude": 91, "longitude": 0},
        {"latitude": 0, "longitude": -181},
        {"latitude": True, "longitude": 0},
        {"latitude": 0, "longitude": False},
        {"latitude": 0},
        {"latitude": 0, "longitude": 0, "height": 5},
        [52.5, 13.4],
    ],
)
def test_a_place_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(InvalidValueError, match="latitude"):
        normalize_value(field(T.GEOLOCATION), given)


@pytest.mark.parametrize(
    ("settings", "type_", "good", "bad", "expected"),
    [
        ({"min": 2}, T.STRING, "ab", "a", "at least 2 characters"),
        ({"max": 2}, T.STRING, "ab", "abc", "at most 2 characters"),
        ({"min": 2}, T.INTEGER, 2, 1, "at least 2"),
        ({"max": 2.5}, T.DOUBLE, 2.5, 2.6, "at most 2.5"),
        ({"max": 1}, T.ARRAY, [1], [1, 2], "at most 1 items"),
        ({"values": ("a", "b")}, T.PICKLIST, "a", "c", "one of a, b"),
        ({"values": ("a", "b")}, T.STRING, "b", "c", "one of a, b"),
    ],
)
def test_settings_of_a_field_hold(
    settings: dict[str, Any], type_: FieldType, good: Any, bad: Any, expected: str
) -> None:
    chosen = field(type_, **settings)
    assert normalize_value(chosen, good) == good
    with pytest.raises(InvalidValueError) as caught:
        normalize_value(chosen, bad)
    assert caught.value.expected == expected


def test_many_choices_are_not_all_listed() -> None:
    many = field(T.PICKLIST, values=tuple(f"v{n}" for n in range(25)))
    with pytest.raises(InvalidValueError, match="v19 and 5 more"):
        normalize_value(many, "other")


def test_choices_are_texts_each_once_and_of_the_list() -> None:
    chosen = field(T.MULTI_PICKLIST, values=("a", "b"))
    for given, place in [(["a", "c"], "[1]"), (["a", "a"], "[1]"), ([5], "[0]")]:
        with pytest.raises(InvalidValueError) as caught:
            normalize_value(chosen, given)
        assert caught.value.place == place
    with pytest.raises(InvalidValueError, match="a text"):
        normalize_value(field(T.MULTI_PICKLIST), [5])


def test_a_pattern_is_matched() -> None:
    chosen = field(T.STRING, pattern="[a-z]+")
    assert normalize_value(chosen, "abc", str.islower) == "abc"
    with pytest.raises(InvalidValueError, match=r"a text that matches \[a-z\]\+"):
        normalize_value(chosen, "ABC", str.islower)


def test_a_text_may_be_too_long_for_its_pattern() -> None:
    def matches(_: str) -> bool:
        raise ValueError("a text of more than 10 bytes for this pattern")

    with pytest.raises(InvalidValueError, match="not a text of more than 10 bytes"):
        normalize_value(field(T.STRING, pattern="a*"), "a" * 20, matches)


@pytest.mark.parametrize(
    ("value", "place", "expected"),
    [
        ({"a": {"b": "\x00"}}, ".a.b", "a text without NUL characters"),
        ({"a": ["\ud800"]}, ".a[0]", "a text without half of a surrogate pair"),
        ({"\x00": 1}, ".(name)", "a text without NUL characters"),
        ([float("inf")], "[0]", "a finite number"),
        ([2**63], "[0]", "a number of at most 64 bits"),
        ([1e40], "[0]", SHORT),
        ({"a": [0.0, -1e308]}, ".a[1]", SHORT),
        ({"a": 1e-41}, ".a", SHORT),
    ],
)
def test_json_that_cannot_be_stored_is_named(value: Any, place: str, expected: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_json(value)
    assert (caught.value.place, caught.value.expected) == (place, expected)


@pytest.mark.parametrize("value", [[0.0, -0.0, 6.02e23, -9.9e39, 6.6e-34], 1e308, 5e-324])
def test_numbers_that_take_few_digits_are_json(value: Any) -> None:
    check_json(value)


def test_json_is_not_nested_too_deep() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidValueError, match="at most 32 levels"):
        check_json(deep)
    named: Any = {}
    for _ in range(40):
        named = {"a-long-name-of-a-field": named}
    with pytest.raises(InvalidValueError) as caught:
        check_json(named)
    assert len(caught.value.place) == 101


def test_ids_of_records() -> None:
    assert is_record_id("a")
    assert is_record_id("a" * 100)
    assert not is_record_id("a" * 101)
    assert not is_record_id("")
    assert not is_record_id("-a")
    assert not is_record_id("a b")
    assert not is_record_id("batch")


def test_numbers_are_written_as_the_format_says() -> None:
    assert number_text(field(T.AUTO_NUMBER), 42) == 42
    assert number_text(field(T.AUTO_NUMBER, format="INV-{0000}/x"), 42) == "INV-0042/x"
    assert number_text(field(T.AUTO_NUMBER, format="{0}"), 42) == "42"
