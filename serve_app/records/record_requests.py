"""What the routes of records read from a request."""

from collections.abc import Mapping
from typing import Any

from core.records.collection import CollectionRefusal
from core.records.values import RECORD_ID, is_record_id
from core.shared.errors import InvalidError
from serve_app.http.json_io import headers_of, parse, read_body
from serve_app.http.openapi import parameter
from serve_app.http.preconditions import expected_version
from serve_app.http.router import Context, refuse
from services.records.record_collections import RecordCollection

NAME = parameter("path", "name", "The name or the id of the collection.")
RECORD = parameter("path", "id", "The id of the record.", pattern=f"^{RECORD_ID}$")
IF_MATCH = parameter(
    "header", "If-Match", 'Refuses the change unless the record has this version, such as "3".'
)
DOCUMENT = {
    "type": "object",
    "description": "Values by the names of fields, and those that every record has.",
    "additionalProperties": True,
}


async def collection_of(context: Context) -> RecordCollection:
    """Return the collection that the path names; answer the request if there is none."""
    found = await context.replica.record_collections.find(
        context.tenant, context.request.path_params["name"]
    )
    return found or refuse(CollectionRefusal.COLLECTION_NOT_FOUND)


def record_id_of(context: Context) -> str:
    record_id: str = context.request.path_params["id"]
    if not is_record_id(record_id):
        raise InvalidError("id", "letters, digits and . _ : -, up to 100")
    return record_id


def version_of(context: Context) -> int | None:
    """Return the version that a change expects; None for any."""
    if_match = headers_of(context.request).get("if-match")
    return None if if_match is None else expected_version(if_match)


async def fields_of(context: Context) -> Mapping[str, Any]:
    raw = await read_body(context.request, context.replica.config.request_timeout)
    body = parse(raw)
    if not isinstance(body, dict):
        raise InvalidError("body", "an object with the fields of a record")
    return body


def integer_of(context: Context, name: str, default: int, largest: int) -> int:
    """Return a whole number of the query, from 1."""
    text = context.request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= largest):
        raise InvalidError(name, f"a whole number from 1 to {largest}")
    return int(text)
