"""Collections: names, what they refer to, and the columns of indexed fields."""

import pytest

from core.records.collection import (
    NO_SLOTS,
    CollectionDefinition,
    IndexSlots,
    assign_slots,
    is_collection_name,
    needs_reindexing,
    new_unique_fields,
)
from core.records.field import FieldDefinition, FieldType, RollupFunction, RollupSummary


def indexed(name: str, kind: FieldType = FieldType.STRING) -> FieldDefinition:
    return FieldDefinition(name=name, type=kind, indexed=True)


PLAIN = FieldDefinition(name="plain", type=FieldType.STRING)


@pytest.mark.parametrize("name", ["a", "orders", "order-lines", "v2", "a" * 100])
def test_names_are_segments_of_event_types(name: str) -> None:
    assert is_collection_name(name)


@pytest.mark.parametrize("name", ["", "Orders", "order_lines", "2v", "-a", "a b", "a\n", "a" * 101])
def test_other_texts_are_no_names(name: str) -> None:
    assert not is_collection_name(name)


def test_a_collection_refers_to_targets_and_details() -> None:
    rollup = RollupSummary(collection="lines", relationship="order", function=RollupFunction.COUNT)
    definition = CollectionDefinition(
        name="orders",
        fields=(
            PLAIN,
            FieldDefinition(name="customer", type=FieldType.LOOKUP, target="customers"),
            FieldDefinition(name="parent", type=FieldType.REFERENCE, target="orders"),
            FieldDefinition(name="lines", type=FieldType.ROLLUP_SUMMARY, rollup=rollup),
        ),
    )
    assert definition.refers_to == {"customers", "orders", "lines"}


def test_indexed_fields_get_a_column_in_their_order() -> None:
    assert assign_slots([PLAIN]) == NO_SLOTS
    assert assign_slots([indexed("a"), PLAIN, indexed("b")]) == ("a", "b", None)


def test_the_details_of_a_master_are_always_indexed() -> None:
    detail = FieldDefinition(name="order", type=FieldType.MASTER_DETAIL, target="orders")
    assert detail.is_indexed
    assert assign_slots([PLAIN, detail]) == ("order", None, None)


def test_a_field_keeps_its_column_over_versions() -> None:
    before = assign_slots([indexed("a"), indexed("b"), indexed("c")])
    assert assign_slots([indexed("c"), indexed("b")], before) == (None, "b", "c")
    assert assign_slots([indexed("d"), indexed("c"), indexed("b")], before) == ("d", "b", "c")
    assert assign_slots([PLAIN], before) == NO_SLOTS


def test_what_is_indexed_beyond_the_columns_gets_none() -> None:
    assert assign_slots([indexed(name) for name in "abcd"]) == ("a", "b", "c")


def unique(name: str) -> FieldDefinition:
    return FieldDefinition(name=name, type=FieldType.STRING, unique=True)


def definition(*fields: FieldDefinition, before: IndexSlots = NO_SLOTS) -> CollectionDefinition:
    return CollectionDefinition(name="orders", fields=fields, slots=assign_slots(fields, before))


def test_columns_are_filled_anew_where_another_field_has_them() -> None:
    before = definition(indexed("a"), indexed("b"), PLAIN)
    for same in (before, definition(indexed("b"), PLAIN, before=before.slots), definition(PLAIN)):
        assert not needs_reindexing(before, same)
    assert needs_reindexing(before, definition(indexed("c"), indexed("b"), before=before.slots))
    assert needs_reindexing(before, definition(indexed("a"), indexed("b"), indexed("plain")))
    assert needs_reindexing(before, definition(indexed("a", FieldType.DATE), indexed("b")))


def test_unique_values_are_filled_anew_where_other_fields_are_unique() -> None:
    before = definition(unique("a"), PLAIN)
    after = definition(unique("a"), unique("plain"))
    assert needs_reindexing(before, after)
    assert needs_reindexing(after, before)
    assert new_unique_fields(before, after) == ["plain"]
    assert new_unique_fields(after, before) == []
