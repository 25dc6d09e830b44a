"""Event types as an application declares them, in one request."""

from typing import Annotated

from fastapi import Path

from core.access.permissions import Permission
from core.events.event_type import CODE_LENGTH, SEGMENT
from core.shared.quotas import Quota
from serve_app.events.event_type_sync_models import (
    EventTypeSyncRequest,
    EventTypeSyncView,
    KeptType,
)
from serve_app.events.schema_service import declaration_of
from serve_app.http.problems import Problem, ProblemError
from serve_app.http.router import Context, HttpRouter
from storage.events import event_type_sync
from storage.events.event_type_sync import EventTypeSyncRefusal

Application = Annotated[
    str, Path(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH, examples=["shop"])
]

router = HttpRouter("/api/applications", tag="event types")


@router.post("/{application}/event-types/sync", needs=Permission.EVENT_TYPES_WRITE, refuses=(409,))
async def sync_event_types(
    application: Application, body: EventTypeSyncRequest, context: Context
) -> EventTypeSyncView:
    """Make an application's event types what it declares: all of it, or nothing changes."""
    declaration = await declaration_of(context, application, body)
    codes = [one.code for one in declaration.types]
    quotas = context.replica.count_quotas
    added = await quotas.check_declared(context.tenant, Quota.EVENT_TYPES, codes)
    await quotas.check(context.tenant, Quota.SCHEMAS, added)
    done = await context.replica.database.query_once(
        event_type_sync.sync, context.tenant, declaration
    )
    if isinstance(done, EventTypeSyncRefusal):
        raise refusal_error(done)
    if done and not declaration.is_dry_run:
        context.replica.event_validator.clear()
    return EventTypeSyncView(
        application=application,
        dry_run=declaration.is_dry_run,
        created=done.created,
        updated=done.updated,
        unchanged=done.unchanged,
        removed=done.removed,
        archived=done.archived,
        kept=[
            KeptType(code=code, reason=refusal.code, detail=refusal.sentence)
            for code, refusal in done.kept.items()
        ],
    )


def refusal_error(refused: EventTypeSyncRefusal) -> ProblemError:
    """Make the problem of a declaration: which type, which version, and why."""
    where = refused.code if refused.version is None else f"{refused.code} {refused.version}"
    detail = f"{where}: {refused.refusal.sentence}; nothing has changed"
    return ProblemError(Problem(status=409, code=refused.refusal.code, detail=detail))
