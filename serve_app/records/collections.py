"""Collections over HTTP."""

import time
from typing import Annotated, ParamSpec, TypeVar

from fastapi import Path, Query

from core.access.permissions import Permission
from core.records.collection import (
    CollectionDefinition,
    CollectionRefusal,
    Collections,
    assign_slots,
)
from core.records.definitions.changes import RecordCheck, compare_definitions
from core.records.definitions.rules import broken_references, validate_definition
from core.shared.quotas import Quota
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern
from serve_app.http.cursors import read_id_cursor
from serve_app.http.field_errors import FieldError
from serve_app.http.page import CountedPage, Page
from serve_app.http.preconditions import IfMatch, expected_version
from serve_app.http.problems import invalid_fields
from serve_app.http.router import Context, HttpRouter, refuse, unless_refused
from serve_app.records.collection_models import (
    CollectionPatch,
    CollectionQuery,
    CollectionReplacement,
    CollectionRequest,
    CollectionSummaryView,
    CollectionVersionDetail,
    CollectionVersionQuery,
    CollectionVersionView,
    CollectionView,
    NamedCollection,
    PreviewView,
    fields_of,
)
from services.records.definition_preview import DefinitionPreview, check_records
from services.shared.database import TenantQuery
from storage.records import collections, record_scan
from storage.records.collections import (
    CollectionFilter,
    CollectionRow,
    NewCollection,
    VersionNote,
)
from storage.records.record_scan import ScannedRecord

P = ParamSpec("P")
T = TypeVar("T")

MAX_VERSION = 2**31 - 1
VersionNumber = Annotated[int, Path(alias="version", ge=1, le=MAX_VERSION)]

router = HttpRouter(
    "/control/collections",
    tag="collections",
    reads=Permission.COLLECTIONS_READ,
    writes=Permission.COLLECTIONS_WRITE,
    refuses=CollectionRefusal,
)


def check_definition(
    definition: CollectionDefinition, named: Collections, naming: Collections
) -> None:
    """Raise a problem with all that is wrong with a definition."""
    faults = [
        *validate_definition(definition, named, compile_expression, compile_pattern),
        *broken_references(definition, naming),
    ]
    if faults:
        raise invalid_fields(*(FieldError(fault.field, fault.problem) for fault in faults))


async def find_collection(name: str, context: Context) -> CollectionRow:
    """Read the tenant's collection of this id or name; answer 404 if there is none."""
    return await context.read(collections.read, name) or refuse(
        CollectionRefusal.COLLECTION_NOT_FOUND
    )


async def _write(
    context: Context,
    change: TenantQuery[P, T | CollectionRefusal],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Change definitions in the turn of the tenant; answer the request if that is refused."""
    run = context.replica.definition_changes.run
    return unless_refused(await run(change, context.tenant, *args, **kwargs))


@router.post(status=201)
async def create_collection(body: CollectionRequest, context: Context) -> CollectionView:
    """Create a collection. All that is wrong with it is reported at once."""
    await context.replica.count_quotas.check(context.tenant, Quota.COLLECTIONS)
    fields = fields_of(body.fields)
    new = NewCollection(
        collection_id=context.new_id("col"),
        name=body.name,
        description=body.description,
        definition=CollectionDefinition(name=body.name, fields=fields, slots=assign_slots(fields)),
    )
    note = VersionNote(context.caller.prefix, body.note)
    return CollectionView.of(await _write(context, collections.create, new, note, check_definition))


@router.get()
async def list_collections(
    query: Annotated[CollectionQuery, Query()], context: Context
) -> CountedPage[CollectionSummaryView]:
    """List collections by name, without their fields."""
    wanted, after = CollectionFilter(query.status), query.cursor or ""
    rows = await context.list(collections.page, wanted, after, query.limit)
    total, page = await context.list(collections.count, wanted), CountedPage[CollectionSummaryView]
    return page.of_rows(rows, query.limit, lambda row: row.name, total=total)


@router.get("/{id}")
async def show_collection(name: NamedCollection, context: Context) -> CollectionView:
    """Show one collection with its fields."""
    return CollectionView.of(await find_collection(name, context))


@router.put("/{id}", refuses=(404, 409, 412, 428))
async def replace_collection(
    name: NamedCollection, body: CollectionReplacement, context: Context, if_match: IfMatch = None
) -> CollectionView:
    """Replace the fields and the description of a collection; another definition is a new version.

    Stored records stay as they are until they are written: the preview says which do not fit.
    """
    return await _change(name, body, context, if_match)


@router.patch("/{id}", refuses=(404, 409, 412, 428))
async def change_collection(
    name: NamedCollection, body: CollectionPatch, context: Context, if_match: IfMatch = None
) -> CollectionView:
    """Change the fields or the description of a collection; what is left out stays as it is."""
    return await _change(name, body, context, if_match)


async def _change(
    name: str,
    body: CollectionReplacement | CollectionPatch,
    context: Context,
    if_match: str | None,
) -> CollectionView:
    note = VersionNote(context.caller.prefix, body.note, expected_version(if_match))
    return CollectionView.of(
        await _write(context, collections.change, name, body.edit, note, check_definition)
    )


@router.delete("/{id}")
async def archive_collection(name: NamedCollection, context: Context) -> None:
    """Archive a collection that no other one refers to. Its records can be read, not written."""
    await _write(context, collections.archive, name)


@router.post("/{id}/activate")
async def activate_collection(name: NamedCollection, context: Context) -> CollectionView:
    """Activate an archived collection: its records can be written again."""
    return CollectionView.of(await _write(context, collections.activate, name, check_definition))


@router.get("/{id}/versions")
async def list_collection_versions(
    name: NamedCollection, query: Annotated[CollectionVersionQuery, Query()], context: Context
) -> Page[CollectionVersionView]:
    """List the versions of a collection, newest first. The last hundred are kept."""
    row = await find_collection(name, context)
    before = read_id_cursor(query.cursor) or MAX_VERSION
    rows = await context.list(
        collections.versions, row.collection_no, min(before, MAX_VERSION), query.limit
    )
    return Page[CollectionVersionView].of_rows(rows, query.limit, lambda one: str(one.version))


@router.get("/{id}/versions/{version}")
async def show_collection_version(
    name: NamedCollection, version: VersionNumber, context: Context
) -> CollectionVersionDetail:
    """Show the fields that a collection had in one version."""
    row = await find_collection(name, context)
    found = await context.read(collections.read_version, row.collection_no, version)
    made, definition = found or refuse(CollectionRefusal.VERSION_NOT_FOUND)
    about = {"version": made.version, "note": made.note}
    return CollectionVersionDetail.of(
        about
        | {"created_by": made.created_by, "created_at": made.created_at}
        | {"fields": definition.fields}
    )


# It names records whose values do not fit, and so tells of values.
@router.post("/{id}/preview", needs=Permission.RECORDS_READ, logs=False)
async def preview_collection(
    name: NamedCollection, body: CollectionReplacement, context: Context
) -> PreviewView:
    """Say what other fields would break, and change nothing.

    Stored records are checked, too: up to 50,000, for five seconds.
    """
    row = await find_collection(name, context)
    after = body.edit(row).definition
    await context.read(collections.check, after, check_definition)
    preview = DefinitionPreview(compare_definitions(row.definition, after))

    async def read(fields: list[str], last: str) -> list[ScannedRecord]:
        return await context.list(record_scan.read_fields, row.collection_no, fields, last)

    check = RecordCheck(row.definition, after, compile_pattern)
    await check_records(preview, check, read, time.monotonic)
    return PreviewView.of(preview)
