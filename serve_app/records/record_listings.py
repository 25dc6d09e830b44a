"""Listings and exports of records over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from core.access.permissions import Permission
from core.shared.errors import InvalidError
from serve_app.http.json_io import json_response
from serve_app.http.openapi import parameter
from serve_app.http.router import Context, HttpRouter
from serve_app.records.record_rendering import position_cursor, read_position, row_document
from serve_app.records.record_requests import DOCUMENT, NAME, collection_of, integer_of
from serve_app.records.records import PREFIX
from services.records.record_collections import RecordCollection
from services.records.record_files import csv_header, csv_line
from services.records.record_query import read_filter
from storage.postgres.bounded_scan import ScanPage
from storage.records import record_listing
from storage.records.record_listing import RecordFilter, RecordPosition, RecordRow

MAX_RECORDS = 500
NDJSON, CSV = "application/x-ndjson", "text/csv"
_FORMATS = {"ndjson": NDJSON, "csv": CSV}
_OWN = frozenset({"limit", "cursor", "sort", "format"})
_FILTER = [
    NAME,
    parameter(
        "query",
        "sort",
        "The field to sort by: id, or an indexed field, whose records have a value there. With - "
        "before it, from the end.",
    ),
]
_PAGE = {
    "type": "object",
    "required": ["items", "nextCursor"],
    "properties": {
        "items": {"type": "array", "items": DOCUMENT},
        "nextCursor": {"type": ["string", "null"]},
    },
}

router = HttpRouter(PREFIX, tag="records", reads=Permission.RECORDS_READ, refuses=(404,))


@router.get(
    raw={
        "parameters": [
            *_FILTER,
            parameter("query", "limit", "Up to 500.", type="integer"),
            parameter("query", "cursor", "nextCursor of the page before."),
        ],
        "x-filters": "field=value, or field.OPERATOR=value with eq ne gt gte lt lte in",
    },
    responses={200: {"description": "A page.", "content": {"application/json": {"schema": _PAGE}}}},
)
async def list_records(request: Request) -> Response:
    """List records, filtered by `field=value` or `field.gte=value`.

    Conditions on the field that sorts the listing, and equality on an indexed field, are served by
    an index. Others look at 20,000 records: a page with fewer items than its limit may have a next.
    """
    context = Context(request)
    collection = await collection_of(context)
    limit = integer_of(context, "limit", 100, MAX_RECORDS)
    after = read_position(request.query_params.get("cursor"))
    found = await _page(context, collection, _filter(context, collection), after, limit)
    items = [row_document(collection, row) for row in found.items]
    following = None if found.scanned_to is None else position_cursor(found.scanned_to)
    return json_response({"items": items, "nextCursor": following})


@router.get(
    "/export",
    raw={"parameters": [*_FILTER, parameter("query", "format", "ndjson or csv.")]},
    responses={200: {"description": "Records.", "content": {NDJSON: {}, CSV: {}}}},
)
async def export_records(request: Request) -> Response:
    """Export all records that pass a filter, each as it is when its page is read."""
    context = Context(request)
    collection = await collection_of(context)
    wanted = request.query_params.get("format", "ndjson")
    if wanted not in _FORMATS:
        raise InvalidError("format", "ndjson or csv")
    lines = _lines(context, collection, _filter(context, collection), is_csv=wanted == "csv")
    return StreamingResponse(lines, media_type=_FORMATS[wanted])


async def _lines(
    context: Context, collection: RecordCollection, chosen: RecordFilter, *, is_csv: bool
) -> AsyncIterator[bytes]:
    definition = collection.schema.definition
    if is_csv:
        yield csv_header(definition)
    after: RecordPosition | None = None
    while True:
        found = await _page(context, collection, chosen, after, MAX_RECORDS)
        documents = [row_document(collection, row) for row in found.items]
        if documents:
            yield b"".join(_line(one, definition if is_csv else None) for one in documents)
        after = found.scanned_to
        if after is None:
            return


def _line(document: dict[str, Any], definition: Any) -> bytes:
    if definition is None:
        return msgspec.json.encode(document) + b"\n"
    return csv_line(definition, document)


async def _page(
    context: Context,
    collection: RecordCollection,
    chosen: RecordFilter,
    after: RecordPosition | None,
    limit: int,
) -> ScanPage[RecordRow, RecordPosition]:
    place = (collection.collection_no, chosen, after, limit)
    return await context.list(record_listing.page, *place)


def _filter(context: Context, collection: RecordCollection) -> RecordFilter:
    query = context.request.query_params
    conditions = [(name, value) for name, value in query.multi_items() if name not in _OWN]
    return read_filter(collection.schema, collection.slots, conditions, query.get("sort"))
