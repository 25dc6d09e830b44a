"""What a change of a definition breaks: by the definitions, and in stored records."""

from typing import Any

import pytest

from core.records.collection import CollectionDefinition, assign_slots
from core.records.definitions.changes import ChangeSeverity, RecordCheck, compare_definitions
from core.records.field import FieldDefinition, FieldType
from handlers.filters.patterns import compile_pattern

T = FieldType


def field(name: str = "one", kind: FieldType = T.STRING, **settings: Any) -> FieldDefinition:
    return FieldDefinition(name=name, type=kind, **settings)


def definition(*fields: FieldDefinition) -> CollectionDefinition:
    return CollectionDefinition(name="orders", fields=fields, slots=assign_slots(fields))


def changes(before: FieldDefinition | None, after: FieldDefinition | None) -> dict[str, str]:
    """The kinds of changes by severity of one field, beside a field that stays."""
    stays = field("stays", indexed=True)
    old, new = (definition(*(one for one in (two, stays) if one)) for two in (before, after))
    found = compare_definitions(old, new)
    assert all(one.sentence and one.field == "one" for one in found)
    return {one.kind: one.severity for one in found}


BREAKING: list[tuple[FieldDefinition | None, FieldDefinition | None, str]] = [
    (field(), None, "removed"),
    (None, field(required=True), "added_required"),
    (field(), field(kind=T.INTEGER), "type"),
    (field(), field(required=True), "required"),
    (field(), field(unique=True), "unique"),
    (field(), field(values=("a",)), "values"),
    (field(values=("a", "b")), field(values=("b", "c")), "values"),
    (field(), field(max=5), "bounds"),
    (field(max=5), field(max=4), "bounds"),
    (field(), field(min=0), "bounds"),
    (field(min=1), field(min=2), "bounds"),
    (field(), field(pattern="a"), "pattern"),
    (field(pattern="b"), field(pattern="a"), "pattern"),
    (field(kind=T.LOOKUP, target="a"), field(kind=T.LOOKUP, target="b"), "target"),
]
HARMLESS: list[tuple[FieldDefinition | None, FieldDefinition | None]] = [
    (field(), field()),
    (field(required=True), field()),
    (field(unique=True), field()),
    (field(values=("a",)), field(values=("a", "b"))),
    (field(values=("a",)), field()),
    (field(min=1, max=5), field(max=6)),
    (field(pattern="a"), field()),
    (field(), field(default="x", description="y")),
    (field(indexed=True), field()),
]


@pytest.mark.parametrize(("before", "after", "kind"), BREAKING)
def test_what_breaks(
    before: FieldDefinition | None, after: FieldDefinition | None, kind: str
) -> None:
    assert changes(before, after) == {kind: ChangeSeverity.BREAKING}


@pytest.mark.parametrize(("before", "after"), HARMLESS)
def test_what_does_not(before: FieldDefinition | None, after: FieldDefinition | None) -> None:
    assert changes(before, after) == {}


def test_what_is_worth_a_notice() -> None:
    notice = ChangeSeverity.NOTICE
    assert changes(None, field()) == {"added": notice}
    assert changes(None, field(required=True, default="x")) == {"added": notice}
    assert changes(None, field(indexed=True)) == {"added": notice}
    assert changes(field(), field(indexed=True)) == {"indexed": notice}
    old, new = (field(kind=T.FORMULA, formula=text) for text in ("1", "2"))
    assert changes(old, new) == {"formula": notice}


def test_what_breaks_comes_first() -> None:
    before = definition(field("a"), field("b"), field("c"))
    after = definition(field("a", indexed=True), field("b", required=True), field("c", T.DATE))
    found = compare_definitions(before, after)
    assert [(one.field, one.kind) for one in found] == [
        ("b", "required"),
        ("c", "type"),
        ("a", "indexed"),
    ]


def misfits(before: FieldDefinition, after: FieldDefinition, value: Any) -> list[tuple[str, str]]:
    check = RecordCheck(definition(before), definition(after), compile_pattern)
    data = {} if value is None else {"one": value}
    return [tuple(one) for one in check.misfits({**data, "other": 1})]


def test_records_that_do_not_fit_are_found() -> None:
    assert misfits(field(), field(required=True), None) == [("one", "a value")]
    assert misfits(field(), field(required=True), "x") == []
    assert misfits(field(), field(required=True, default="x"), None) == []
    assert misfits(field(), field(kind=T.INTEGER), "x")[0][0] == "one"
    assert misfits(field(), field(max=2), "abc") == [("one", "at most 2 characters")]
    assert misfits(field(), field(pattern="[a-z]+"), "ABC")[0][0] == "one"
    assert misfits(field(), field(pattern="[a-z]+"), "abc") == []
    lists = field(kind=T.MULTI_PICKLIST, values=("a", "b"))
    fewer = field(kind=T.MULTI_PICKLIST, values=("a",))
    assert misfits(lists, fewer, ["a", "b"])[0][0] == "one[1]"


def test_what_is_encrypted_or_computed_is_not_read() -> None:
    assert misfits(field(kind=T.ENCRYPTED), field(kind=T.ENCRYPTED, max=1), "sealed") == []
    assert misfits(field(), field(kind=T.FORMULA, formula="1"), "x") == []


def test_fields_that_stay_are_not_checked() -> None:
    check = RecordCheck(definition(field()), definition(field()), compile_pattern)
    assert (check.names, check.unique) == ([], [])


def test_fields_that_become_unique_are_known() -> None:
    before = definition(field("a"), field("b", unique=True))
    after = definition(
        field("a", unique=True), field("b", unique=True, max=3), field("c", unique=True)
    )
    check = RecordCheck(before, after, compile_pattern)
    assert check.unique == ["a", "c"]
    assert check.names == ["a", "b", "c"]
