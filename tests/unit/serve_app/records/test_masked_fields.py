"""A field that was ENCRYPTED in an earlier version of its definition stays masked everywhere."""

import msgspec
import pytest

from core.records.record import ChangeKind
from core.records.validation import MASK
from core.shared.errors import InvalidError
from serve_app.records.record_rendering import change_document, row_document, version_document
from services.records.record_collections import RecordCollection
from services.records.record_files import csv_line
from services.records.record_query import read_filter
from storage.records.record_listing import RecordRow
from storage.records.records import ChangeRow
from tests.unit.core.records.writes import ORDER, ORDERS, schema

SECRET = "enc:1:k:x"
# Its code and its card were ENCRYPTED once; the card is no field any more.
FIELDS = tuple(one for one in ORDER.fields if one.name != "card")
DEFINITION = msgspec.structs.replace(ORDER, fields=FIELDS, masked=("card", "code"))
COLLECTION = RecordCollection(ORDERS, schema(DEFINITION), True, DEFINITION.slots)
TEXT = msgspec.json.encode({"code": SECRET, "card": SECRET, "name": "Jo"}).decode()


def test_it_is_masked_in_listings_exports_versions_and_history() -> None:
    row = RecordRow(
        record_id="o1",
        version=1,
        data=TEXT,
        created_at=0.0,
        updated_at=0.0,
        created_by=None,
        updated_by=None,
    )
    change = ChangeRow(
        change_id="c1",
        version=1,
        kind=ChangeKind.UPDATED,
        data=TEXT,
        before=TEXT,
        user_id=None,
        turn_id="t1",
        at=0.0,
    )
    listed, made = row_document(COLLECTION, row), change_document(COLLECTION, change)
    for shown in (
        listed, version_document(COLLECTION, "o1", change), made["data"], made["before"]
    ):  # fmt: skip
        assert (shown["code"], shown["card"], shown["name"]) == (MASK, MASK, "Jo")
    assert SECRET.encode() not in csv_line(DEFINITION, listed)


def test_it_neither_filters_nor_sorts_a_listing() -> None:
    slots = DEFINITION.slots
    assert "code" in slots
    with pytest.raises(InvalidError, match="was ENCRYPTED before"):
        read_filter(COLLECTION.schema, slots, [("code", "x")], None)
    with pytest.raises(InvalidError, match="an indexed field of orders: id, status"):
        read_filter(COLLECTION.schema, slots, [], "code")
    assert read_filter(COLLECTION.schema, slots, [], "status").slot is not None
