"""Records as answers: flat documents, encrypted values masked, refusals as problems."""

import base64
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from core.records.messages import RecordRefused, RecordSaved
from core.records.validation import MASK
from core.shared.errors import InvalidError
from core.shared.timestamps import to_iso
from core.waits.messages import RefusedReply
from serve_app.http.field_errors import FieldError
from serve_app.http.models import Document
from serve_app.http.problems import Problem, ProblemError, problem_of_refusal, refusal_error
from services.records.record_collections import RecordCollection
from services.records.record_writer import RecordWriting, WriteReply
from storage.records.record_listing import RecordPosition, RecordRow
from storage.records.records import ChangeRow

MAX_FIELD_ERRORS = 1_000
"""The most field errors of one answer: a batch could have a hundred for each of its items."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_position = msgspec.json.Decoder(tuple[str, str])


def masked(collection: RecordCollection, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document in the order of its fields; secret values stay in the database."""
    hidden, known = collection.schema.definition.hidden, collection.schema.definition.by_name
    ordered = {name: data[name] for name in known if name in data}
    return {
        name: MASK if name in hidden and value is not None else value
        for name, value in {**ordered, **data}.items()
    }


def row_document(collection: RecordCollection, row: RecordRow) -> Document:
    return _document(collection, row.record_id, _decode(row.data), row)


def saved_document(collection: RecordCollection, record_id: str, saved: RecordSaved) -> Document:
    return _document(collection, record_id, saved.data, saved)


def _document(
    collection: RecordCollection,
    record_id: str,
    data: Mapping[str, Any],
    state: RecordRow | RecordSaved,
) -> Document:
    return {
        "id": record_id,
        **masked(collection, data),
        "version": state.version,
        "createdAt": to_iso(state.created_at),
        "updatedAt": to_iso(state.updated_at),
        "createdBy": state.created_by,
        "updatedBy": state.updated_by,
    }


def version_document(collection: RecordCollection, record_id: str, row: ChangeRow) -> Document:
    """Render a record as of a version."""
    return {
        "id": record_id,
        **masked(collection, _decode(row.data)),
        "version": row.version,
        "updatedAt": to_iso(row.at),
        "updatedBy": row.user_id,
    }


def change_document(collection: RecordCollection, row: ChangeRow) -> Document:
    data = _decode(row.data)
    before = None if row.before is None else _decode(row.before)
    return {
        "changeId": row.change_id,
        "version": row.version,
        "changeType": row.kind,
        "changedFields": sorted(data if before is None else before),
        "data": masked(collection, data),
        "before": None if before is None else masked(collection, before),
        "user": row.user_id,
        "at": to_iso(row.at),
    }


def etag(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"'}


def problem_of_reply(
    reply: RecordRefused | RefusedReply, within: str = "", limit: int = MAX_FIELD_ERRORS
) -> Problem:
    """Return the problem of a refused write, with up to `limit` field errors.

    `within` names the item of a batch.
    """
    if isinstance(reply, RefusedReply):
        return refusal_error(reply).problem
    count = len(reply.problems)
    named = (FieldError(f"{within}{one.field}", one.expected) for one in reply.problems)
    errors = tuple(islice(named, max(limit, 1)))
    found = problem_of_refusal(reply.refusal)
    detail = found.detail
    if errors:
        more = f" (and {count - 1} more)" if count > 1 else ""
        detail = f"{errors[0]}{more}"
    headers = {} if reply.version is None else etag(reply.version)
    return Problem(
        status=found.status,
        code=found.code,
        detail=detail,
        field_errors=errors[:limit],
        headers=headers,
    )


class RefusalRenderer:
    """Renders the refusals of one answer, with a bounded number of field errors together.

    The details still say how many errors each refusal has.
    """

    def __init__(self, limit: int = MAX_FIELD_ERRORS) -> None:
        self._left = limit

    def problem(self, reply: RecordRefused | RefusedReply, within: str = "") -> Problem:
        found = problem_of_reply(reply, within, self._left)
        self._left -= len(found.field_errors)
        return found

    def result_document(self, index: int, writing: RecordWriting) -> Document:
        """Render what became of one item of a batch."""
        found: Document = {"index": index, "id": writing.record_id}
        if isinstance(writing.reply, RecordSaved):
            return found | {"version": writing.reply.version, "created": writing.reply.created}
        return found | {"problem": self.problem(writing.reply).document()}

    def row_errors(self, row: int | None, writing: RecordWriting) -> list[Document]:
        """Render why a row of a file is refused; nothing is left of it beyond the limit."""
        if isinstance(writing.reply, RecordSaved) or self._left == 0:
            return []
        problem = self.problem(writing.reply)
        place = {"row": row, "id": writing.record_id}
        if not problem.field_errors:
            self._left -= 1
            return [{**place, "field": "id", "expected": problem.detail}]
        errors = problem.field_errors
        return [{**place, "field": one.field, "expected": one.expected} for one in errors]

    def line_errors(self, row: int | None, expected: str) -> list[Document]:
        """Render what is wrong with a line that cannot be read."""
        if self._left == 0:
            return []
        self._left -= 1
        return [{"row": row, "field": "line", "expected": expected}]


def expect_saved(reply: WriteReply) -> RecordSaved:
    """Return what was saved; answer the request if nothing was."""
    if isinstance(reply, RecordSaved):
        return reply
    raise ProblemError(problem_of_reply(reply))


def position_cursor(position: RecordPosition) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def read_position(text: str | None) -> RecordPosition | None:
    if text is None:
        return None
    try:
        return RecordPosition(*_position.decode(base64.b64decode(text, b"-_", validate=True)))
    except (ValueError, msgspec.DecodeError):
        raise InvalidError("cursor", "the nextCursor of an earlier page") from None
