"""Event types as an application declares them, in one request."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import CODE_LENGTH, SEGMENT
from core.shared.quotas import Quota
from serve_app.events.event_type_rendering import sync_document, sync_error
from serve_app.events.event_type_sync_models import EventTypeSyncRequest, EventTypeSyncView
from serve_app.events.schema_service import declaration_of, validator_of
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.events import event_type_sync
from storage.events.event_type_sync import EventTypeSyncRefusal

log = structlog.get_logger("event_types")

router = APIRouter(prefix="/api/applications", tags=["event types"])

Application = Annotated[
    str, Path(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH, examples=["shop"])
]


@router.post(
    "/{application}/event-types/sync",
    dependencies=[requires(Permission.EVENT_TYPES_WRITE)],
    operation_id="syncEventTypes",
    responses=describe_responses({200: EventTypeSyncView}, 409),
    openapi_extra=json_body(EventTypeSyncRequest),
)
async def sync_event_types(request: Request, application: Application) -> Response:
    """Make an application's event types what it declares: all of it, or nothing changes."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(EventTypeSyncRequest, raw)
    declaration = await declaration_of(request, application, body)
    codes = [one.code for one in declaration.types]
    added = await replica.count_quotas.check_declared(caller.tenant, Quota.EVENT_TYPES, codes)
    await replica.count_quotas.check(caller.tenant, Quota.SCHEMAS, added)
    done = await replica.database.query_once(event_type_sync.sync, caller.tenant, declaration)
    if isinstance(done, EventTypeSyncRefusal):
        raise sync_error(done)
    if done and not declaration.is_dry_run:
        validator_of(request).clear()
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
    return json_response(sync_document(declaration, done))
