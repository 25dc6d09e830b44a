"""The one way to write a record."""

from typing import Any

import msgspec
import pytest

from core.records.messages import (
    FieldProblem,
    RecordRefusal,
    RecordRefused,
    RecordSaved,
    RecordWrite,
)
from core.records.record import ChangeKind, Record
from core.records.save import MAX_DOCUMENT_BYTES, RecordHooks, SavedState, save
from core.records.validation import MASK, MAX_PROBLEMS, check_fields
from tests.unit.core.records.writes import NOW, ORDER, T, a_field, a_save, define, ids, schema

W = RecordWrite
NEW = {"name": "Jo", "code": "c1", "total": 10, "pieces": 4}


def written(
    write: RecordWrite, current: Record | None = None, hooks: RecordHooks | None = None, **more: Any
) -> Any:
    return save(a_save(write, **more), current, schema(), hooks or RecordHooks(), NOW, ids())


def a_record(**fields: Any) -> Record:
    state = written(W.CREATE, fields={**NEW, **fields}, numbers={"number": 7}, user="ann")
    assert isinstance(state, SavedState)
    return state.record


def test_a_new_record_has_defaults_numbers_and_formulas() -> None:
    state = written(W.CREATE, fields=NEW, numbers={"number": 7}, user="ann", cause="x", depth=2)
    record, change = state.record, state.change
    assert record.data == {
        **NEW,
        "status": "open",
        "price": 2.5,
        "rounded": 3,
        "number": "O-007",
    }
    assert (record.version, record.created_at, record.created_by) == (1, NOW, "ann")
    assert record.indexed == ("c1", "open", None)
    assert (change.kind, change.version, change.before) == (ChangeKind.CREATED, 1, None)
    assert (change.change_id, change.user_id, change.cause, change.depth) == ("id1", "ann", "x", 2)
    assert msgspec.json.decode(change.data) == record.data
    assert [key.field for key in state.taken] == ["code"]
    assert state.released == ()
    assert state.reply == RecordSaved(
        version=1,
        created=True,
        data=dict(record.data),
        created_at=NOW,
        updated_at=NOW,
        created_by="ann",
        updated_by="ann",
    )


def test_a_merge_changes_the_given_fields_alone() -> None:
    state = written(W.MERGE, a_record(), turn_id="t2", fields={"total": 20, "code": None})
    assert state.record.version == 2
    assert state.record.data["price"] == 5
    assert "code" not in state.record.data
    assert msgspec.json.decode(state.change.before) == {
        "code": "c1",
        "price": 2.5,
        "rounded": 3,
        "total": 10,
    }
    assert [key.field for key in state.released] == ["code"]
    assert (state.record.created_by, state.record.updated_by) == ("ann", None)


def test_a_replacement_keeps_numbers_and_kept_secrets_alone() -> None:
    current = a_record(card="enc:1:k:x", more={"a": 1}, status="paid")
    fields = {"name": "Al", "total": 1, "pieces": 1}
    state = written(W.REPLACE, current, turn_id="t2", fields=fields, kept=("card",))
    assert state.record.data == {
        **fields,
        "status": "open",
        "price": 1,
        "rounded": 1,
        "number": "O-007",
        "card": "enc:1:k:x",
    }


def test_a_text_that_looks_encrypted_is_refused_unless_it_is_there_already() -> None:
    reply = written(W.CREATE, fields={**NEW, "name": "enc:1:k:x", "card": "enc:1:k:y"})
    assert isinstance(reply, RecordRefused)
    assert [one.field for one in reply.problems] == ["name"]
    stored = msgspec.structs.replace(a_record(), data={**NEW, "name": "enc:1:k:x"})
    state = written(W.MERGE, stored, turn_id="t2", fields={"total": 20})
    assert state.record.data["name"] == "enc:1:k:x"


def test_a_field_that_was_encrypted_keeps_what_is_stored_when_it_is_sent_back_masked() -> None:
    known = schema(msgspec.structs.replace(ORDER, masked=("name",)))
    found = check_fields(known, W.REPLACE, {**NEW, "name": MASK})
    assert (found.kept, found.problems) == (("name",), ())
    assert "name" not in found.fields


def test_an_upsert_creates_or_merges() -> None:
    created = written(W.UPSERT, fields=NEW)
    merged = written(W.UPSERT, created.record, turn_id="t2", fields={"total": 20})
    assert (created.change.kind, merged.change.kind) == (ChangeKind.CREATED, ChangeKind.UPDATED)
    assert merged.record.data["name"] == "Jo"


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    current = a_record()
    reply = written(W.MERGE, current, turn_id="t2", fields={"total": 10.0})
    assert isinstance(reply, RecordSaved)
    assert reply.version == 1


def test_a_deleted_record_keeps_its_document_and_releases_its_values() -> None:
    current = a_record()
    state = written(W.DELETE, current, turn_id="t2", user="bo")
    assert (state.record.version, state.record.deleted_at) == (2, NOW)
    assert state.record.indexed == (None, None, None)
    assert state.record.data == current.data
    assert (state.change.kind, state.change.before) == (ChangeKind.DELETED, "{}")
    assert [key.field for key in state.released] == ["code"]


def test_a_deleted_record_can_be_created_again_and_goes_on_counting() -> None:
    deleted = written(W.DELETE, a_record(), turn_id="t2").record
    state = written(W.CREATE, deleted, turn_id="t3", fields=NEW, user="cy")
    assert (state.record.version, state.change.kind) == (3, ChangeKind.CREATED)
    assert (state.record.created_by, state.record.deleted_at) == ("cy", None)
    assert [key.field for key in state.taken] == ["code"]


@pytest.mark.parametrize("age", range(8))
def test_a_message_that_comes_again_is_recognised(age: int) -> None:
    record = a_record()
    for turn in range(age):
        record = written(W.MERGE, record, turn_id=f"u{turn}", fields={"total": turn}).record
    reply = written(W.CREATE, record, fields=NEW)
    assert isinstance(reply, RecordSaved)
    assert (reply.version, reply.created) == (record.version, True)


@pytest.mark.parametrize(
    ("write", "exists", "more", "refusal", "version"),
    [
        (W.CREATE, True, {}, RecordRefusal.RECORD_EXISTS, 1),
        (W.MERGE, False, {}, RecordRefusal.RECORD_NOT_FOUND, None),
        (W.REPLACE, False, {}, RecordRefusal.RECORD_NOT_FOUND, None),
        (W.DELETE, False, {}, RecordRefusal.RECORD_NOT_FOUND, None),
        (W.MERGE, True, {"expected_version": 2}, RecordRefusal.VERSION_MISMATCH, 1),
        (W.UPSERT, False, {"expected_version": 2}, RecordRefusal.VERSION_MISMATCH, None),
        (W.MERGE, True, {"definition_version": 2}, RecordRefusal.COLLECTION_CHANGED, None),
    ],
)
def test_a_write_that_does_not_fit_is_refused(
    write: RecordWrite,
    exists: bool,
    more: dict[str, Any],
    refusal: RecordRefusal,
    version: int | None,
) -> None:
    current = a_record() if exists else None
    reply = written(write, current, turn_id="t2", fields={"total": 1}, **more)
    assert isinstance(reply, RecordRefused)
    assert (reply.refusal, reply.version) == (refusal, version)


def test_a_deleted_record_is_not_found() -> None:
    deleted = written(W.DELETE, a_record(), turn_id="t2").record
    reply = written(W.MERGE, deleted, turn_id="t3", fields={"total": 1})
    assert reply.refusal is RecordRefusal.RECORD_NOT_FOUND


def test_all_that_is_wrong_is_told_at_once() -> None:
    reply = written(W.CREATE, fields={"total": 1, "pieces": 0})
    assert reply.refusal is RecordRefusal.INVALID_RECORD
    assert reply.problems == (
        FieldProblem(
            "price", "a value of its formula total / pieces: character 7: division by zero"
        ),
        FieldProblem("name", "is required"),
    )


def test_a_formula_that_makes_what_cannot_be_stored_is_a_problem() -> None:
    doubled = define("texts", a_field("made", ORDER.by_name["price"].type, formula="'a\\u0000'"))
    message = a_save(W.CREATE)
    reply = save(message, None, schema(doubled), RecordHooks(), NOW, ids())
    assert isinstance(reply, RecordRefused)
    assert reply.problems[0].expected.endswith("a text without NUL characters")


def test_a_formula_may_be_null() -> None:
    empty = define("texts", a_field("made", ORDER.by_name["price"].type, formula="text"))
    state = save(a_save(W.CREATE), None, schema(empty), RecordHooks(), NOW, ids())
    assert isinstance(state, SavedState)
    assert state.record.data == {}


def test_a_document_is_bounded() -> None:
    reply = written(W.CREATE, fields={**NEW, "more": "x" * MAX_DOCUMENT_BYTES})
    assert [problem.field for problem in reply.problems] == ["record"]
    assert reply.problems[0].expected.startswith("at most 256 KB of JSON; it has 262,")


def test_hooks_see_the_write_and_change_it() -> None:
    seen: list[Any] = []

    def before_save(change: Any) -> dict[str, Any]:
        seen.append((change.kind, dict(change.before), dict(change.data)))
        return {"status": "paid", "more": None}

    hooks = RecordHooks(before_save, lambda change: (f"row of {change.version}",))  # type: ignore[arg-type,return-value]
    state = written(W.CREATE, hooks=hooks, fields={**NEW, "more": 1})
    assert seen == [(ChangeKind.CREATED, {}, {**NEW, "more": 1, "status": "open"})]
    assert state.record.data["status"] == "paid"
    assert "more" not in state.record.data
    assert state.rows == ("row of 1",)


def test_what_a_hook_sets_is_checked() -> None:
    hooks = RecordHooks(before_save=lambda _: {"status": "lost", "nmae": "x"})
    reply = written(W.CREATE, hooks=hooks, fields=NEW)
    assert [problem.field for problem in reply.problems] == ["status", "nmae"]


def test_fields_are_checked_with_all_problems_and_hints() -> None:
    given = {
        "nmae": "Jo",
        "version": 3,
        "total": -1,
        "price": 5,
        "number": None,
        "name": None,
        "more": {"a": ["\x00"]},
        "bad\x00" + "y" * 200: 1,
    }
    checked = check_fields(schema(), W.CREATE, given)
    assert [(one.field, one.expected) for one in checked.problems][:-1] == [
        ("nmae", "a field of orders; there is no such field; did you mean name?"),
        ("version", "nothing: it is set by Muster"),
        ("total", "at least 0"),
        ("price", "nothing: a FORMULA is computed and cannot be set"),
        ("number", "nothing: it is computed and cannot be set"),
        ("name", "is required"),
        ("more.a[0]", "a text without NUL characters"),
    ]
    assert checked.problems[-1].field == "bad\ufffd" + "y" * 96 + "…"


def test_what_was_read_can_be_sent_back() -> None:
    read = {"id": "o1", "version": 3, "price": 2, "name": "Jo", "card": MASK, "status": None}
    checked = check_fields(schema(), W.REPLACE, read)
    assert checked == ({"name": "Jo", "status": None}, ("card",), ())


def test_the_number_of_problems_is_bounded() -> None:
    checked = check_fields(schema(), W.MERGE, {f"x{n}": 1 for n in range(1_000)})
    assert len(checked.problems) == MAX_PROBLEMS


def test_a_schema_names_its_secret_fields() -> None:
    assert schema().encrypted == {"card"}


def test_all_formulas_of_a_record_compare_together_what_one_may() -> None:
    formulas = [a_field(name, T.FORMULA, formula="a == b") for name in ("first", "second")]
    lists = define("lists", a_field("a", T.ARRAY), a_field("b", T.ARRAY), *formulas)
    computed, problems = schema(lists).compute({"a": [1] * 600, "b": [1] * 600}, {})
    assert computed["first"] is True
    assert [(one.field, "more than 1,000 items" in one.expected) for one in problems] == [
        ("second", True)
    ]
