"""Collections from JSON to definitions and back, whatever the JSON is."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.records.collection import CollectionDefinition, CollectionStatus, assign_slots
from core.records.definitions.rules import validate_definition
from core.records.field import FieldDefinition, FieldType, RollupFunction, RollupSummary
from core.shared.errors import InvalidError
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern
from serve_app.http.json_io import parse_as
from serve_app.http.problems import ProblemError
from serve_app.records.collection_models import (
    CollectionPatch,
    CollectionReplacement,
    CollectionRequest,
    CollectionView,
    FieldModel,
    fields_of,
)
from storage.records.collections import CollectionRow
from tests.support.hostile_input import TEXTS, VALUES, as_json

ROLLUP = RollupSummary(collection="lines", relationship="up", function=RollupFunction.COUNT)
FIELDS = (
    FieldDefinition(name="a", type=FieldType.STRING, indexed=True, max=5, default="x"),
    FieldDefinition(name="b", type=FieldType.BOOLEAN, default=False, required=True),
    FieldDefinition(name="c", type=FieldType.PICKLIST, values=("x", "y"), unique=True),
    FieldDefinition(name="d", type=FieldType.DOUBLE, min=-0.5, max=2**60, description="é"),
    FieldDefinition(name="e", type=FieldType.ROLLUP_SUMMARY, rollup=ROLLUP),
    FieldDefinition(name="f", type=FieldType.JSON, default={"a": [1, None, {"b": 0}]}),
    FieldDefinition(name="g", type=FieldType.AUTO_NUMBER, format="{0}"),
)
ROW = CollectionRow(
    collection_id="col_0PJ3F6SK81VB8",
    name="orders",
    description="text",
    definition=CollectionDefinition(name="orders", fields=FIELDS, slots=assign_slots(FIELDS)),
    collection_no=1,
    tenant=1,
    version=4,
    status=CollectionStatus.ACTIVE,
)


def sent(fields: Any = FIELDS, **more: Any) -> bytes:
    return msgspec.json.encode({"fields": fields, **more})


def test_fields_are_what_was_sent() -> None:
    request = parse_as(CollectionRequest, sent(name="orders"))
    assert fields_of(request.fields) == FIELDS


def test_a_view_shows_what_can_be_sent_again() -> None:
    view = msgspec.json.decode(CollectionView.of(ROW).to_json())
    assert view["fields"] == msgspec.json.decode(msgspec.json.encode(FIELDS))
    assert (view["id"], view["version"], view["indexBuilding"]) == ("col_0PJ3F6SK81VB8", 4, False)
    assert CollectionView.of(ROW).response_headers() == {"ETag": '"4"'}
    again = parse_as(CollectionReplacement, sent(view["fields"], description="text"))
    assert again.edit(ROW) == ROW


def test_a_replacement_is_all_of_it() -> None:
    fewer = parse_as(CollectionReplacement, sent(FIELDS[1:], name="orders")).edit(ROW)
    assert (fewer.description, fewer.definition.fields) == (None, FIELDS[1:])
    assert fewer.definition.slots == (None, None, None)
    with pytest.raises(InvalidError):
        parse_as(CollectionReplacement, sent(name="other")).edit(ROW)


def test_a_patch_is_some_of_it() -> None:
    described = parse_as(CollectionPatch, b'{"description": "new"}').edit(ROW)
    assert described == replace(ROW, description="new")
    cleared = parse_as(CollectionPatch, b'{"description": null}').edit(ROW)
    assert cleared.description is None
    fewer = parse_as(CollectionPatch, sent(FIELDS[:1])).edit(ROW)
    assert (fewer.description, fewer.definition.fields) == ("text", FIELDS[:1])
    for wrong in (b"{}", b'{"fields": null}', b'{"name": "x"}'):
        with pytest.raises(ProblemError):
            parse_as(CollectionPatch, wrong)


_SETTINGS = sorted(FieldModel.model_fields)
_FIELD = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "id"]) | TEXTS, "type": st.sampled_from(list(FieldType))},
    optional={
        name: st.sampled_from([True, 1, "a", ["a"], "a + 1", "[a-z]+", "{0}"]) | VALUES
        for name in _SETTINGS
        if name not in {"name", "type"}
    },
)


@given(st.lists(_FIELD | VALUES, max_size=6), TEXTS | st.just("orders"))
@settings(max_examples=300, deadline=None)
def test_any_definition_is_refused_or_can_be_stored(fields: list[Any], name: str) -> None:
    try:
        request = parse_as(CollectionRequest, as_json({"name": name, "fields": fields}))
    except ProblemError:
        return
    chosen = fields_of(request.fields)
    definition = CollectionDefinition(name=request.name, fields=chosen, slots=assign_slots(chosen))
    faults = validate_definition(definition, {}, compile_expression, compile_pattern)
    assert all(fault.problem and fault.field for fault in faults)
    if not faults:
        stored = msgspec.json.encode(definition)
        assert b"\\u0000" not in stored
        assert msgspec.json.decode(stored, type=CollectionDefinition) == definition
