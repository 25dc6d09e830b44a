"""Event types as an application declares them, in one request."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import CODE_LENGTH, SEGMENT
from core.shared.quotas import Quota
from serve_app.events.event_type_rendering import sync_document, sync_refused
from serve_app.events.event_type_sync_models import EventTypeSyncRequest, EventTypeSyncView
from serve_app.events.schema_service import conformity_of, declaration_of
from serve_app.http.json_io import answer, parse_as, read_body
from serve_app.http.openapi import body, described
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.events import event_type_sync
from storage.events.event_type_sync import SyncRefused

log = structlog.get_logger("event_types")

router = APIRouter(prefix="/api/applications", tags=["event types"])

Application = Annotated[
    str, Path(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH, examples=["shop"])
]


@router.post(
    "/{application}/event-types/sync",
    dependencies=[requires(Permission.EVENT_TYPES_WRITE)],
    operation_id="syncEventTypes",
    responses=described({200: EventTypeSyncView}, 409),
    openapi_extra=body(EventTypeSyncRequest),
)
async def sync_event_types(request: Request, application: Application) -> Response:
    """Make an application's event types what it declares: all of it, or nothing changes."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    wish = parse_as(EventTypeSyncRequest, raw)
    declaration = await declaration_of(request, application, wish)
    codes = [one.code for one in declaration.types]
    added = await replica.count_quotas.check_declared(caller.tenant, Quota.EVENT_TYPES, codes)
    await replica.count_quotas.check(caller.tenant, Quota.SCHEMAS, added)
    done = await replica.database.ask_once(event_type_sync.sync, caller.tenant, declaration)
    if isinstance(done, SyncRefused):
        raise sync_refused(done)
    if done and not declaration.is_rehearsal:
        conformity_of(request).clear()
        log.info(
            "event_types.synced",
            tenant=caller.tenant,
            application=application,
            created=len(done.created),
            updated=len(done.updated),
            removed=len(done.removed),
            archived=len(done.archived),
            by=caller.prefix,
        )
    return answer(sync_document(declaration, done))
