"""What a field of a definition may be: its name, its settings by type, its default."""

from typing import Any

import pytest

from core.records.collection import SYSTEM_FIELDS
from core.records.definitions.field_rules import DefinitionFault, check_field
from core.records.field import FieldDefinition, FieldType, RollupFunction, RollupSummary
from handlers.filters.patterns import compile_pattern

T = FieldType
ROLLUP = RollupSummary(collection="lines", relationship="order", function=RollupFunction.COUNT)
NEEDED: dict[FieldType, dict[str, Any]] = {
    T.PICKLIST: {"values": ("a", "b")},
    T.MULTI_PICKLIST: {"values": ("a", "b")},
    T.REFERENCE: {"target": "orders"},
    T.LOOKUP: {"target": "orders"},
    T.MASTER_DETAIL: {"target": "orders"},
    T.FORMULA: {"formula": "1"},
    T.ROLLUP_SUMMARY: {"rollup": ROLLUP},
}
GOOD_DEFAULTS: dict[FieldType, Any] = {
    T.STRING: "x", T.INTEGER: 7, T.LONG: 2**53 + 1, T.DOUBLE: 0.5, T.BOOLEAN: False,
    T.DATE: "2026-01-31", T.DATETIME: "2026-01-31T12:00:00Z", T.JSON: {"a": [None]},
    T.REFERENCE: "rec-1", T.ARRAY: [1, "x"], T.PICKLIST: "a", T.MULTI_PICKLIST: ["b"],
    T.CURRENCY: 9.99, T.PERCENT: 50, T.PHONE: "+1 555 0100", T.EMAIL: "jo@example.com",
    T.URL: "https://example.com/", T.RICH_TEXT: "<b>x</b>", T.EXTERNAL_ID: "x-1",
    T.GEOLOCATION: {"latitude": 1, "longitude": 2}, T.LOOKUP: "rec-1", T.MASTER_DETAIL: "rec-1",
}  # fmt: skip


def field(kind: FieldType = T.STRING, name: str = "one", **settings: Any) -> FieldDefinition:
    return FieldDefinition(name=name, type=kind, **{**NEEDED.get(kind, {}), **settings})


def faults(one: FieldDefinition) -> list[DefinitionFault]:
    return list(check_field(one, ("fields", 3), compile_pattern))


def faulty(one: FieldDefinition) -> set[str]:
    """The settings that are named."""
    assert all(fault.place[:2] == ("fields", 3) and fault.problem for fault in faults(one))
    return {str(fault.place[2]) for fault in faults(one)}


@pytest.mark.parametrize("kind", list(FieldType))
def test_every_type_is_valid_with_what_it_needs(kind: FieldType) -> None:
    assert faults(field(kind)) == []


@pytest.mark.parametrize("kind", [kind for kind in FieldType if kind in NEEDED])
def test_what_a_type_needs_is_missed(kind: FieldType) -> None:
    assert faulty(FieldDefinition(name="one", type=kind)) == set(NEEDED[kind])


def test_a_fault_has_a_pointer_and_the_name_that_errors_use() -> None:
    (fault,) = faults(field(T.STRING, "1st"))
    assert (fault.pointer, fault.field) == ("/fields/3/name", "fields[3].name")
    assert DefinitionFault((), "x").pointer == ""
    assert DefinitionFault((), "x").field == "body"


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "é", "a" * 101, "a\x00", "\ud800"])
def test_a_name_is_letters_digits_and_underscores(name: str) -> None:
    assert faulty(field(T.STRING, name)) == {"name"}


@pytest.mark.parametrize("name", sorted(SYSTEM_FIELDS))
def test_a_name_is_not_that_of_a_field_of_every_record(name: str) -> None:
    assert faulty(field(T.STRING, name)) == {"name"}


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        (T.FORMULA, "required", True),
        (T.AUTO_NUMBER, "required", True),
        (T.JSON, "unique", True),
        (T.ENCRYPTED, "unique", True),
        (T.BOOLEAN, "unique", True),
        (T.ROLLUP_SUMMARY, "indexed", True),
        (T.ENCRYPTED, "indexed", True),
        (T.ENCRYPTED, "default", "secret"),
        (T.FORMULA, "default", 1),
        (T.INTEGER, "values", ("1",)),
        (T.BOOLEAN, "min", 1),
        (T.DATE, "max", 1),
        (T.INTEGER, "pattern", "x"),
        (T.ENCRYPTED, "pattern", "x"),
        (T.STRING, "target", "orders"),
        (T.STRING, "formula", "1"),
        (T.FORMULA, "rollup", ROLLUP),
        (T.INTEGER, "format", "{0}"),
    ],
)
def test_a_setting_belongs_to_certain_types(kind: FieldType, setting: str, value: Any) -> None:
    (fault,) = faults(field(kind, **{setting: value}))
    assert fault.place == ("fields", 3, setting)
    assert str(kind) in fault.problem


@pytest.mark.parametrize("kind", GOOD_DEFAULTS)
def test_a_default_is_a_value_of_its_field(kind: FieldType) -> None:
    assert faults(field(kind, default=GOOD_DEFAULTS[kind])) == []
    wrong = {"x": "y"} if kind not in {T.JSON, T.GEOLOCATION} else float("nan")
    assert faulty(field(kind, default=wrong)) == {"default"}


@pytest.mark.parametrize(
    "hostile",
    ["a\x00b", "\ud800", 2**70, float("inf"), [[[]]], {"a": "b"}, "x" * 101],
    ids=lambda value: ascii(value)[:20],
)
def test_a_hostile_default_is_refused(hostile: Any) -> None:
    assert faulty(field(T.STRING, max=100, default=hostile)) == {"default"}


def test_a_default_keeps_to_bounds_values_and_pattern() -> None:
    assert faulty(field(T.INTEGER, min=1, default=0)) == {"default"}
    assert faulty(field(T.PICKLIST, default="c")) == {"default"}
    assert faulty(field(T.STRING, pattern="[a-z]+", default="A")) == {"default"}
    assert faults(field(T.STRING, pattern="[a-z]+", default="abc")) == []


def test_a_unique_field_has_no_default() -> None:
    assert faulty(field(T.STRING, unique=True, default="x")) == {"default"}
    assert faults(field(T.STRING, unique=True)) == []


@pytest.mark.parametrize(
    "values", [("a", "a"), ("",), ("x" * 256,), tuple(map(str, range(1_001)))], ids=len
)
def test_values_are_few_short_and_distinct(values: tuple[str, ...]) -> None:
    assert faulty(field(T.PICKLIST, values=values)) == {"values"}


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        (T.INTEGER, {"min": 3, "max": 2}, {"max"}),
        (T.DOUBLE, {"min": float("nan")}, {"min"}),
        (T.DOUBLE, {"max": float("inf")}, {"max"}),
        (T.LONG, {"min": -(2**63) - 1, "max": 2**64}, {"min", "max"}),
        (T.STRING, {"min": -1}, {"min"}),
        (T.ARRAY, {"max": 1.5}, {"max"}),
        (T.DOUBLE, {"min": -1.5, "max": 1.5}, set()),
        (T.STRING, {"min": 0, "max": 10}, set()),
        (T.MULTI_PICKLIST, {"min": 1, "max": 1}, set()),
    ],
)
def test_bounds_are_numbers_or_lengths(
    kind: FieldType, settings: dict[str, Any], named: set[str]
) -> None:
    assert faulty(field(kind, **settings)) == named


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "a{1001}", "x" * 10_000, "\ud800"])
def test_a_pattern_is_one_of_re2(pattern: str) -> None:
    assert faulty(field(T.STRING, pattern=pattern)) == {"pattern"}


@pytest.mark.parametrize("written", ["", "INV", "{0}{0}", "{1}", "{}", "x" * 41 + "{0}", "{0}\n"])
def test_a_format_has_one_place_for_the_number(written: str) -> None:
    assert faulty(field(T.AUTO_NUMBER, format=written)) == {"format"}


def test_formats_of_numbers() -> None:
    for written in ("{0}", "INV-{0000}", "{00}/a"):
        assert faults(field(T.AUTO_NUMBER, format=written)) == []


def test_a_description_is_short() -> None:
    assert faulty(field(description="x" * 1_001)) == {"description"}


def test_all_faults_are_found_at_once() -> None:
    one = field(
        T.STRING, "1st", target="x", min=2, max=1, pattern="(", values=("a", "a"), format="{0}"
    )
    assert faulty(one) == {"name", "target", "max", "pattern", "values", "format"}
