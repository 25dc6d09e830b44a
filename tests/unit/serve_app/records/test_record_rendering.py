"""Refusals of many writes in one answer: however many there are, the answer stays small."""

from core.records.messages import FieldProblem, RecordRefusal, RecordRefused, RecordSaved, refused
from serve_app.records.record_rendering import MAX_FIELD_ERRORS, RefusalRenderer
from services.records.record_writer import RecordWriting


def a_refusal(problems: int) -> RecordRefused:
    found = [FieldProblem(f"f{n}", "a number") for n in range(problems)]
    return refused(RecordRefusal.INVALID_RECORD, *found)


def test_an_answer_has_a_bounded_number_of_field_errors() -> None:
    renderer = RefusalRenderer()
    writing = RecordWriting("o1", a_refusal(100))
    found = [renderer.result_document(index, writing)["problem"] for index in range(1_000)]
    assert sum(len(one.get("errors", ())) for one in found) == MAX_FIELD_ERRORS
    assert [len(one.get("errors", ())) for one in found[9:11]] == [100, 0]
    assert {one["detail"] for one in found} == {"f0: a number (and 99 more)"}


def test_the_last_refusal_has_as_many_errors_as_are_left() -> None:
    renderer = RefusalRenderer(3)
    first, second = (renderer.problem(a_refusal(2), f"items[{n}].") for n in range(2))
    assert [one.field for one in first.field_errors] == ["items[0].f0", "items[0].f1"]
    assert [one.field for one in second.field_errors] == ["items[1].f0"]
    assert second.detail == "items[1].f0: a number (and 1 more)"


def test_what_is_saved_takes_nothing_of_the_limit() -> None:
    renderer = RefusalRenderer(1)
    saved = RecordWriting("o1", RecordSaved(version=1, created=True))
    shown = {"index": 0, "id": "o1", "version": 1, "created": True}
    assert renderer.result_document(0, saved) == shown
    assert renderer.row_errors(1, saved) == []
    assert len(renderer.problem(a_refusal(2)).field_errors) == 1


def test_an_import_lists_a_bounded_number_of_errors() -> None:
    renderer = RefusalRenderer(4)
    gone = RecordWriting("o1", refused(RecordRefusal.COLLECTION_ARCHIVED))
    errors = renderer.line_errors(1, "a JSON object")
    errors += renderer.row_errors(2, gone)
    errors += renderer.row_errors(3, RecordWriting("o2", a_refusal(3)))
    errors += renderer.row_errors(4, gone)
    errors += renderer.line_errors(5, "a JSON object")
    assert [(one["row"], one["field"]) for one in errors] == [
        (1, "line"), (2, "id"), (3, "f0"), (3, "f1")
    ]  # fmt: skip
    assert "archived" in errors[1]["expected"]
