"""The transition of a record: what it reads, and what it stores together."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.records.change_outbox import OutgoingChange
from core.records.messages import (
    RecordRefusal,
    RecordRefused,
    RecordReplies,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
)
from core.records.record import Record, RecordAddress, RecordChange, UniqueValue
from core.records.record_schema import RecordSchema
from core.records.transitions import RecordTransitions
from core.shared.entities import Entity, EntityRef, LoadRequest, Transition
from tests.support.read_views import StoredView
from tests.unit.core.records.writes import (
    LINE,
    LINES,
    NOW,
    ORDER,
    ORDERS,
    TENANT,
    a_collection,
    a_save,
    ids,
    schema,
    schema_of,
)

W = RecordWrite
NEW = {"name": "Jo", "code": "c1", "total": 10, "pieces": 4}
COLLECTIONS: dict[EntityRef[Any], Entity | None] = {
    one.ref: one for one in (a_collection(ORDER, ORDERS), a_collection(LINE, LINES))
}


def run(
    message: SaveRecord | SaveAllRecords,
    stored: dict[EntityRef[Any], Entity | None],
    **collections: Any,
) -> tuple[Transition, list[LoadRequest]]:
    """Apply a message, loading what it asks for."""
    view = StoredView()
    everything = {**COLLECTIONS, **stored}
    asked = []
    while True:
        found = RecordTransitions(schema_of).apply(message, view, NOW, ids())
        if isinstance(found, Transition):
            return found, asked
        asked.append(found)
        for ref in found.entities:
            view.known[ref] = everything.get(ref)


def keep(stored: dict[EntityRef[Any], Entity | None], transition: Transition) -> None:
    for entity in transition.entities:
        is_gone = isinstance(entity, UniqueValue) and entity.record_id is None
        stored[entity.ref] = None if is_gone else entity


def test_a_record_is_stored_with_its_change_and_its_unique_values() -> None:
    message = a_save(W.CREATE, fields=NEW)
    transition, asked = run(message, {})
    record, value = transition.entities
    assert isinstance(record, Record)
    assert isinstance(value, UniqueValue)
    assert (record.ref, value.record_id) == (message.address.ref, "o1")
    (change,) = transition.rows
    assert isinstance(change, RecordChange)
    assert change.version == transition.reply.version == 1
    assert [len(request.entities) for request in asked] == [2, 1]


def test_a_change_is_stored_with_whom_to_tell_of_it() -> None:
    collection = replace(a_collection(ORDER, ORDERS), followed=frozenset({"CREATED"}))
    message = a_save(W.CREATE, fields={**NEW, "code": None})
    view = StoredView({collection.ref: collection, message.address.ref: None})
    transitions = RecordTransitions(schema_of, change_topic="changes")
    transition = transitions.apply(message, view, NOW, ids())
    assert isinstance(transition, Transition)
    change, kafka, event = transition.rows
    assert isinstance(change, RecordChange)
    assert kafka == OutgoingChange(message.address, change.change_id, "changes")
    assert event == OutgoingChange(message.address, change.change_id)


def test_a_value_moves_from_one_record_to_another() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    keep(stored, run(a_save(W.CREATE, fields=NEW), stored)[0])
    refused, _ = run(a_save(W.CREATE, "o2", turn_id="t2", fields=NEW), stored)
    assert isinstance(refused.reply, RecordRefused)
    assert refused.reply.refusal is RecordRefusal.VALUE_NOT_UNIQUE
    assert [one.field for one in refused.reply.problems] == ["code"]
    assert refused.entities == ()
    keep(stored, run(a_save(W.MERGE, turn_id="t3", fields={"code": None}), stored)[0])
    accepted, _ = run(a_save(W.CREATE, "o2", turn_id="t4", fields=NEW), stored)
    assert accepted.reply.created


def test_a_refusal_stores_nothing() -> None:
    transition, _ = run(a_save(W.MERGE, fields={"total": 1}), {})
    assert transition == Transition(reply=RecordRefused(reason=RecordRefusal.RECORD_NOT_FOUND.name))


@pytest.mark.parametrize(
    ("collection", "refusal"),
    [
        (None, RecordRefusal.COLLECTION_GONE),
        (a_collection(ORDER, ORDERS, is_active=False), RecordRefusal.COLLECTION_ARCHIVED),
    ],
)
def test_a_collection_that_takes_no_records_refuses(
    collection: Any, refusal: RecordRefusal
) -> None:
    message = a_save(W.CREATE, fields=NEW)
    transition, _ = run(message, {message.address.collection_ref: collection})
    assert transition.reply.refusal is refusal


def a_line(record_id: str, order: str) -> SaveRecord:
    master = RecordAddress(TENANT, ORDERS, order)
    return a_save(
        W.CREATE,
        record_id,
        collection_no=LINES,
        turn_id=f"t-{record_id}",
        fields={"order": order},
        masters={"order": master},
    )


def test_a_detail_needs_a_master_that_exists() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    missing, _ = run(a_line("l1", "o1"), stored)
    assert missing.reply.problems[0].expected == "the id of a record that exists; there is no o1"
    keep(stored, run(a_save(W.CREATE, fields=NEW), stored)[0])
    saved, _ = run(a_line("l1", "o1"), stored)
    assert saved.reply.created
    assert saved.unchanged == (RecordAddress(TENANT, ORDERS, "o1").ref,)
    keep(stored, run(a_save(W.DELETE, turn_id="t2"), stored)[0])
    assert run(a_line("l2", "o1"), stored)[0].reply.refusal is RecordRefusal.INVALID_RECORD


def test_details_are_deleted_with_their_master() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    for message in (
        a_save(W.CREATE, fields=NEW),
        a_save(W.CREATE, "o2", turn_id="t2", fields={"name": "Al", "total": 1, "pieces": 1}),
        a_line("l1", "o1"),
        a_line("l2", "o2"),
    ):
        keep(stored, run(message, stored)[0])
    lines = [RecordAddress(TENANT, LINES, name) for name in ("l1", "l2", "l3")]
    gone = RecordAddress(TENANT, 99, "x1")
    message = a_save(W.DELETE, turn_id="t9", user="ann", details=(*lines, gone))
    transition, _ = run(message, stored)
    deleted = [one for one in transition.entities if isinstance(one, Record)]
    assert [one.address.record_id for one in deleted] == ["o1", "l1"]
    assert all(one.deleted_at == NOW for one in deleted)
    assert [row.kind for row in transition.rows] == ["DELETED", "DELETED"]  # type: ignore[attr-defined]
    keep(stored, transition)
    again, _ = run(message, stored)
    assert (again.entities, again.reply.version) == ((), 2)


def test_a_detail_that_is_deleted_already_is_left_alone() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    for message in (a_save(W.CREATE, fields=NEW), a_line("l1", "o1")):
        keep(stored, run(message, stored)[0])
    line = RecordAddress(TENANT, LINES, "l1")
    keep(stored, run(a_save(W.DELETE, "l1", collection_no=LINES, turn_id="t8"), stored)[0])
    transition, _ = run(a_save(W.DELETE, turn_id="t9", details=(line,)), stored)
    assert len(transition.rows) == 1


def all_of(*saves: SaveRecord) -> SaveAllRecords:
    return SaveAllRecords(address=saves[0].address, turn_id="a1", saves=saves)


def test_several_records_are_stored_all_or_none() -> None:
    first, second = a_save(W.CREATE, fields=NEW), a_save(W.CREATE, "o2", fields={"total": 1})
    refused, _ = run(all_of(first, second), {})
    assert isinstance(refused.reply, RecordReplies)
    assert not refused.reply.are_saved
    assert refused.reply.replies[0].version == 1
    assert (refused.entities, refused.rows) == ((), ())
    good = a_save(W.CREATE, "o2", fields={**NEW, "code": "c2"})
    stored, _ = run(all_of(first, good), {})
    assert stored.reply.are_saved
    assert len(stored.rows) == 2
    assert len(stored.entities) == 4


L1, O1 = RecordAddress(TENANT, LINES, "l1"), RecordAddress(TENANT, ORDERS, "o1")


@pytest.mark.parametrize(
    ("saves", "refused"),
    [
        pytest.param(
            [a_save(W.DELETE, details=(L1,)), a_save(W.DELETE, "o2", details=(L1,))],
            [True, True],
            id="two records share a detail",
        ),
        pytest.param(
            [
                a_save(W.MERGE, "l1", collection_no=LINES),
                a_save(W.DELETE, details=(L1,)),
                a_save(W.CREATE, "o2"),
            ],
            [True, True, False],
            id="a detail is written and goes with its master",
        ),
        pytest.param(
            [a_line("l1", "o1"), a_save(W.DELETE), a_line("l2", "o2")],
            [True, True, False],
            id="a record gets a detail and is deleted",
        ),
        pytest.param([a_save(W.MERGE), a_save(W.DELETE)], [True, True], id="written twice"),
    ],
)
def test_a_record_is_named_once_in_a_message(saves: list[SaveRecord], refused: list[bool]) -> None:
    transition, asked = run(all_of(*saves), {})
    assert (asked, transition.entities, transition.rows) == ([], (), ())
    replies = transition.reply.replies
    assert [bool(one.problems) for one in replies] == refused
    assert "each record once" in replies[0].problems[0].expected
    others = [one.refusal for one in replies if not one.problems]
    assert others == [RecordRefusal.BATCH_REFUSED] * refused.count(False)


def test_several_records_may_have_one_master() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    keep(stored, run(a_save(W.CREATE, fields=NEW), stored)[0])
    transition, _ = run(all_of(a_line("l1", "o1"), a_line("l2", "o1")), stored)
    assert transition.reply.are_saved


def test_a_detail_that_is_named_twice_is_deleted_once() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    for message in (a_save(W.CREATE, fields=NEW), a_line("l1", "o1")):
        keep(stored, run(message, stored)[0])
    transition, _ = run(a_save(W.DELETE, turn_id="t9", details=(L1, O1, L1)), stored)
    assert [one.address for one in transition.entities if isinstance(one, Record)] == [O1, L1]
    assert len(transition.rows) == 2


def test_two_records_of_one_message_cannot_take_the_same_value() -> None:
    both = all_of(a_save(W.CREATE, fields=NEW), a_save(W.CREATE, "o2", fields=NEW))
    transition, _ = run(both, {})
    assert [isinstance(one, RecordRefused) for one in transition.reply.replies] == [False, True]
    assert transition.entities == ()


def test_a_value_passes_from_one_record_to_another_in_one_message() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    keep(stored, run(a_save(W.CREATE, fields=NEW), stored)[0])
    free = a_save(W.MERGE, turn_id="t2", fields={"code": None})
    take = a_save(W.CREATE, "o2", turn_id="t2", fields=NEW)
    transition, _ = run(all_of(free, take), stored)
    assert transition.reply.replies[1].refusal is RecordRefusal.VALUE_NOT_UNIQUE


def test_a_message_that_changes_nothing_stores_nothing() -> None:
    stored: dict[EntityRef[Any], Entity | None] = {}
    keep(stored, run(a_save(W.CREATE, fields=NEW), stored)[0])
    transition, _ = run(a_save(W.MERGE, turn_id="t2", fields={"total": 10}), stored)
    assert (transition.entities, transition.reply.version) == ((), 1)


def test_schemas_are_those_of_a_collection() -> None:
    found: RecordSchema = schema_of(a_collection(ORDER, ORDERS))
    assert found.formulas.keys() == schema().formulas.keys() == {"price", "rounded"}
    assert list(found.formulas) == ["price", "rounded"]
