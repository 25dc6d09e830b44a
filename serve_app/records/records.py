"""Records over HTTP: create, read, change and delete one, and its history."""

from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.records.messages import RecordRefusal, RecordSaved, RecordWrite
from core.records.record import ChangeKind
from core.shared.errors import InvalidError
from core.shared.tsid import is_tsid
from serve_app.http.json_io import json_response
from serve_app.http.openapi import parameter
from serve_app.http.router import Context, HttpRouter, refuse
from serve_app.records.record_rendering import (
    change_document,
    etag,
    expect_saved,
    row_document,
    saved_document,
    version_document,
)
from serve_app.records.record_requests import (
    DOCUMENT,
    IF_MATCH,
    NAME,
    RECORD,
    collection_of,
    fields_of,
    integer_of,
    record_id_of,
    version_of,
)
from services.records.record_collections import RecordCollection
from services.records.record_writer import RecordOperation
from storage.records import records, rollups

PREFIX = "/api/collections/{name}/records"
MAX_VERSION = 2**31 - 1
MAX_CHANGES = 500

router = HttpRouter(
    PREFIX,
    tag="records",
    reads=Permission.RECORDS_READ,
    writes=Permission.RECORDS_WRITE,
    refuses=(404,),
)
_WRITE_REFUSALS = (404, 409, 412)


def _described(*parameters: dict[str, Any], has_body: bool = False) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": DOCUMENT}}}
    return {"parameters": [NAME, *parameters], **({"requestBody": body} if has_body else {})}


@router.post(status=201, refuses=_WRITE_REFUSALS, raw=_described(has_body=True))
async def create_record(request: Request) -> Response:
    """Create a record; `id` may be given."""
    context = Context(request)
    collection = await collection_of(context)
    fields = dict(await fields_of(context))
    record_id = fields.pop("id", None)
    if record_id is not None and not isinstance(record_id, str):
        raise InvalidError("id", "a text")
    operation = RecordOperation(RecordWrite.CREATE, record_id, fields)
    return await _write(context, collection, operation, 201)


@router.get("/{id}", raw=_described(RECORD, parameter("query", "asOf", "A version of the record.")))
async def show_record(request: Request) -> Response:
    """Show a record as it is, or as of a version.

    As it is, it has its ROLLUP_SUMMARY fields, which are computed when it is read.
    """
    context = Context(request)
    collection, record_id = await collection_of(context), record_id_of(context)
    place = (collection.collection_no, record_id)
    if "asOf" in request.query_params:
        version = integer_of(context, "asOf", 1, MAX_VERSION)
        change = await context.read(records.read_version, *place, version)
        if change is None or change.kind is ChangeKind.DELETED:
            refuse(RecordRefusal.RECORD_NOT_FOUND)
        return json_response(version_document(collection, record_id, change), 200, etag(version))
    row = await context.read(records.read, *place)
    if row is None:
        refuse(RecordRefusal.RECORD_NOT_FOUND)
    document = row_document(collection, row) | await _rollups(context, collection, record_id)
    return json_response(document, 200, etag(row.version))


@router.patch("/{id}", refuses=_WRITE_REFUSALS, raw=_described(RECORD, IF_MATCH, has_body=True))
async def change_record(request: Request) -> Response:
    """Change the given fields of a record; null removes a value."""
    return await _change(Context(request), RecordWrite.MERGE)


@router.put("/{id}", refuses=_WRITE_REFUSALS, raw=_described(RECORD, IF_MATCH, has_body=True))
async def replace_record(request: Request) -> Response:
    """Replace all fields of a record; those left out get their default."""
    return await _change(Context(request), RecordWrite.REPLACE)


@router.delete("/{id}", status=204, refuses=_WRITE_REFUSALS, raw=_described(RECORD, IF_MATCH))
async def delete_record(request: Request) -> Response:
    """Delete a record and the details that belong to it; its history stays."""
    context = Context(request)
    collection = await collection_of(context)
    operation = RecordOperation(
        RecordWrite.DELETE, record_id_of(context), expected_version=version_of(context)
    )
    deletion = context.replica.record_deletion
    reply = await deletion.delete(context.tenant, collection, operation, context.caller.prefix)
    expect_saved(reply)
    return Response(status_code=204)


@router.get(
    "/{id}/history",
    raw=_described(
        RECORD,
        parameter("query", "limit", "Up to 500.", type="integer"),
        parameter("query", "cursor", "nextCursor of the page before."),
    ),
)
async def list_record_changes(request: Request) -> Response:
    """List the versions of a record, the latest first, as far as they are kept."""
    context = Context(request)
    collection, record_id = await collection_of(context), record_id_of(context)
    limit = integer_of(context, "limit", 50, MAX_CHANGES)
    before = request.query_params.get("cursor")
    if before is not None and not is_tsid(before):
        raise InvalidError("cursor", "the nextCursor of an earlier page")
    found = await context.list(records.history, collection.collection_no, record_id, before, limit)
    cursor = None if found.is_last else found.rows[-1].change_id
    items = [change_document(collection, row) for row in found.rows]
    return json_response({"items": items, "nextCursor": cursor})


async def _rollups(
    context: Context, collection: RecordCollection, record_id: str
) -> dict[str, Any]:
    """Compute the summaries of a record; one whose index is being built is null."""
    found: dict[str, Any] = {}
    for field in collection.schema.definition.fields:
        if field.rollup is not None:
            details = await context.replica.record_collections.find(
                context.tenant, field.rollup.collection
            )
            slots = () if details is None else details.slots
            found[field.name] = None
            is_hidden = (
                details is not None and field.rollup.field in details.schema.definition.hidden
            )
            if details is not None and not is_hidden and field.rollup.relationship in slots:
                place = (details.collection_no, slots.index(field.rollup.relationship))
                found[field.name] = await context.list(
                    rollups.sum_up, *place, field.rollup, record_id
                )
    return found


async def _change(context: Context, write: RecordWrite) -> Response:
    collection, record_id = await collection_of(context), record_id_of(context)
    expected = version_of(context)
    fields = dict(await fields_of(context))
    if fields.pop("id", record_id) != record_id:
        raise InvalidError("id", f"{record_id}: the id of a record cannot change")
    operation = RecordOperation(write, record_id, fields, expected)
    return await _write(context, collection, operation, 200)


async def _write(
    context: Context, collection: RecordCollection, operation: RecordOperation, status: int
) -> Response:
    (writing,) = await context.replica.records.write(
        context.tenant, collection, [operation], context.caller.prefix
    )
    saved: RecordSaved = expect_saved(writing.reply)
    headers = etag(saved.version)
    if status == 201:
        path = f"/api/collections/{quote(collection.name)}/records/{quote(writing.record_id)}"
        headers["Location"] = path
    document = saved_document(collection, writing.record_id, saved)
    return json_response(document, status, headers)
