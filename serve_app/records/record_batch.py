"""Batches and imports of records over HTTP."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from fastapi import Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.records.messages import RecordRefusal, RecordSaved, RecordWrite
from core.shared.errors import InvalidError
from core.shared.media_types import media_type
from serve_app.http.field_errors import FieldError
from serve_app.http.json_io import (
    headers_of,
    json_response,
    parse,
    parse_items,
    read_any_body,
    read_body,
)
from serve_app.http.models import Document
from serve_app.http.openapi import parameter
from serve_app.http.problems import Problem, ProblemError, invalid_fields
from serve_app.http.router import Context, HttpRouter, refuse
from serve_app.records.record_listings import CSV, NDJSON
from serve_app.records.record_rendering import MAX_FIELD_ERRORS, RefusalRenderer
from serve_app.records.record_requests import NAME, collection_of
from serve_app.records.records import PREFIX
from services.records.record_collections import RecordCollection
from services.records.record_files import FileRow, check_lines, operation_of, read_csv, read_ndjson
from services.records.record_writer import RecordOperation, RecordWriting
from services.shared.time_slice import map_yielding

MAX_OPERATIONS = 1_000
_WRITES = {write.lower(): write for write in RecordWrite}
_KEYS = frozenset({"op", "id", "fields", "version"})
_OPERATION = {
    "type": "object",
    "required": ["op"],
    "properties": {
        "op": {"enum": sorted(_WRITES)},
        "id": {"type": "string"},
        "fields": {"type": "object"},
        "version": {"type": "integer", "description": "Refuses another version of the record."},
    },
}
_BATCH = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "maxItems": MAX_OPERATIONS, "items": _OPERATION}},
}

router = HttpRouter(PREFIX, tag="records", writes=Permission.RECORDS_WRITE, refuses=(404, 409, 412))


@router.post(
    "/batch",
    raw={
        "parameters": [
            NAME,
            parameter("query", "atomic", "true: save all or none.", enum=["true", "false"]),
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _BATCH}}},
    },
)
async def write_records(request: Request) -> Response:
    """Write up to 1000 records, each on its own, or with `atomic=true` all or none."""
    context = Context(request)
    collection = await collection_of(context)
    atomic = request.query_params.get("atomic", "false")
    if atomic not in {"true", "false"}:
        raise InvalidError("atomic", "true or false")
    raw = await read_body(request, context.replica.config.request_timeout)
    items = [parse(bytes(item)) for item in parse_items(raw, MAX_OPERATIONS)]
    found_faults = (fault for index, item in enumerate(items) for fault in _faults(index, item))
    faults = list(islice(found_faults, MAX_FIELD_ERRORS))
    if faults:
        raise invalid_fields(*faults)
    operations = [_operation(item) for item in items]
    if atomic == "true":
        _check_distinct(operations)
    deletion = context.replica.record_deletion
    whole = await deletion.complete(context.tenant, collection, operations)
    operations = refuse(RecordRefusal.TOO_MANY_DETAILS) if whole is None else whole
    results = await context.replica.records.write(
        context.tenant, collection, operations, context.caller.prefix, atomic=atomic == "true"
    )
    failed = sum(not isinstance(one.reply, RecordSaved) for one in results)
    if failed and atomic == "true":
        raise ProblemError(_problem_of_all(results))
    renderer = RefusalRenderer()
    found = await map_yielding(lambda each: renderer.result_document(*each), enumerate(results))
    return json_response({"saved": len(results) - failed, "failed": failed, "items": found})


@router.post(
    "/import",
    raw={
        "parameters": [NAME],
        "requestBody": {"required": True, "content": {NDJSON: {}, CSV: {}}},
    },
)
async def import_records(request: Request) -> Response:
    """Create a record for each line; one with an `id` is created, or merged into the record.

    A line that is refused keeps no other from being saved.
    """
    context = Context(request)
    collection = await collection_of(context)
    kind = media_type(headers_of(request).get("content-type") or "")
    if kind not in {NDJSON, CSV}:
        detail = f"the body must be {NDJSON} or {CSV}"
        raise ProblemError(Problem(status=415, code="unsupported_media_type", detail=detail))
    raw = await read_any_body(request, context.replica.config.request_timeout)
    check_lines(raw)
    rows = read_csv(raw, collection.schema.definition) if kind == CSV else read_ndjson(raw)
    return json_response(await _import(context, collection, rows))


async def _import(
    context: Context, collection: RecordCollection, rows: Iterable[FileRow]
) -> Document:
    renderer, saved, failed = RefusalRenderer(), 0, 0
    errors: list[Document] = []
    for portion in _portions(rows):
        named = [operation_of(row) for row in portion if row.problem is None]
        operations = [
            RecordOperation(RecordWrite.CREATE if one is None else RecordWrite.UPSERT, one, fields)
            for one, fields in named
        ]
        results = await context.replica.records.write(
            context.tenant, collection, operations, context.caller.prefix
        )
        done = sum(isinstance(one.reply, RecordSaved) for one in results)
        saved, failed = saved + done, failed + len(portion) - done
        found = await map_yielding(partial(_row_errors, renderer, iter(results)), portion)
        errors += [one for some in found for one in some]
    return {"saved": saved, "failed": failed, "errors": errors}


def _row_errors(
    renderer: RefusalRenderer, writings: Iterator[RecordWriting], row: FileRow
) -> list[Document]:
    if row.problem is not None:
        return renderer.line_errors(row.number, row.problem)
    return renderer.row_errors(row.number, next(writings))


def _portions(rows: Iterable[FileRow]) -> Iterable[list[FileRow]]:
    portion: list[FileRow] = []
    for row in rows:
        portion.append(row)
        if len(portion) == MAX_OPERATIONS:
            yield portion
            portion = []
    if portion:
        yield portion


def _faults(index: int, item: Any) -> Iterable[FieldError]:
    """Return what is wrong with the form of an operation."""
    place = f"items[{index}]"
    if not isinstance(item, dict):
        yield FieldError(place, "an object")
        return
    for name in item.keys() - _KEYS:
        yield FieldError(f"{place}.{name[:100]}", "a field that exists; this one is unknown")
    op, given = item.get("op"), item.get("id")
    if op not in _WRITES:
        yield FieldError(f"{place}.op", f"one of {', '.join(_WRITES)}")
    if not isinstance(given, str) and (given is not None or op != "create"):
        yield FieldError(f"{place}.id", "the id of a record")
    if not isinstance(item.get("fields", {}), dict):
        yield FieldError(f"{place}.fields", "an object with the fields of a record")
    version = item.get("version")
    if version is not None and (type(version) is not int or not 0 < version < 2**31):
        yield FieldError(f"{place}.version", "a version of the record")


def _operation(item: dict[str, Any]) -> RecordOperation:
    write = _WRITES[item["op"]]
    return RecordOperation(write, item.get("id"), item.get("fields", {}), item.get("version"))


def _check_distinct(operations: list[RecordOperation]) -> None:
    seen: set[str] = set()
    for index, one in enumerate(operations):
        if one.record_id is not None and one.record_id in seen:
            raise InvalidError(f"items[{index}].id", "each record once, as the batch is atomic")
        seen.add(one.record_id or "")


def _problem_of_all(results: list[RecordWriting]) -> Problem:
    """Return one problem with the errors of all items of a batch that was not saved."""
    renderer = RefusalRenderer()
    problems = [
        renderer.problem(one.reply, f"items[{index}].")
        for index, one in enumerate(results)
        if not isinstance(one.reply, RecordSaved)
    ]
    own = [one for one in problems if one.code != RecordRefusal.BATCH_REFUSED.code]
    first = own[0]
    errors = tuple(error for one in own for error in one.field_errors)
    return Problem(
        status=first.status,
        code=first.code,
        detail=f"nothing was saved: {first.detail}",
        field_errors=errors,
        headers=first.headers,
    )
