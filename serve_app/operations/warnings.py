"""Warnings about dispatch: list, acknowledge and delete them."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from serve_app.http.cursors import read_id_cursor
from serve_app.http.fields import IsoTime
from serve_app.http.models import View
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter, unless_missing
from storage.operations import warnings
from storage.operations.warnings import Severity, WarningFilter

MAX_HOURS = 24 * 366

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=20, description="nextCursor of the page before.")]

router = HttpRouter("/monitoring/warnings", tag="monitoring", access="dispatch")


class WarningView(View):
    """A warning. Repetitions are counted in the same warning."""

    id: str = Field(validation_alias="warning_id", coerce_numbers_to_str=True)
    category: str
    severity: Severity
    message: str
    source: str
    timestamp: IsoTime = Field(validation_alias="last_at", description="When it happened last.")
    first_seen: IsoTime = Field(validation_alias="first_at")
    count: int
    acknowledged: bool = Field(validation_alias="is_acknowledged")
    acknowledged_at: IsoTime | None
    acknowledged_by: str | None


class WarningsDropped(View):
    """How many warnings were deleted."""

    deleted: int


@router.get()
async def list_warnings(
    context: Context, limit: Limit = 100, cursor: Cursor = None
) -> Page[WarningView]:
    """List warnings, newest first."""
    return await _page(context, WarningFilter(), limit, cursor)


@router.get("/unacknowledged")
async def list_open_warnings(
    context: Context, limit: Limit = 100, cursor: Cursor = None
) -> Page[WarningView]:
    """List warnings that are not acknowledged, newest first."""
    return await _page(context, WarningFilter(is_open=True), limit, cursor)


@router.get("/severity/{severity}")
async def list_warnings_by_severity(
    severity: Severity, context: Context, limit: Limit = 100, cursor: Cursor = None
) -> Page[WarningView]:
    """List warnings of one severity, newest first."""
    return await _page(context, WarningFilter(severity=severity), limit, cursor)


@router.post("/{warningId}/acknowledge", refuses=(404,))
async def acknowledge_warning(
    warning_id: Annotated[int, Path(alias="warningId", ge=1, lt=2**63)], context: Context
) -> WarningView:
    """Acknowledge a warning; if its cause occurs again, there is a new one."""
    row = await context.read(warnings.acknowledge, warning_id, context.caller.prefix)
    return WarningView.of(unless_missing(row, f"warning {warning_id}"))


@router.delete()
async def delete_warnings(context: Context) -> WarningsDropped:
    """Delete all warnings."""
    return WarningsDropped(deleted=await context.read(warnings.drop))


@router.delete("/old")
async def delete_old_warnings(
    context: Context, hours: Annotated[float, Query(ge=0, le=MAX_HOURS)] = 24
) -> WarningsDropped:
    """Delete warnings that have not occurred again for so many hours."""
    return WarningsDropped(deleted=await context.read(warnings.drop, hours * 3_600))


async def _page(
    context: Context, wanted: WarningFilter, limit: int, cursor: str | None
) -> Page[WarningView]:
    rows = await context.list(warnings.page, wanted, read_id_cursor(cursor), limit)
    return Page[WarningView].of_rows(rows, limit, lambda row: str(row.warning_id))
