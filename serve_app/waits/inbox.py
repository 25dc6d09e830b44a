"""The inbox: events that matched no wait, to show, offer again or delete."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from core.shared.media_types import JSON
from core.waits.incoming_event import IncomingEvent
from core.waits.messages import Offer, Verdict
from core.waits.state import ParkedEvent
from serve_app.container import Replica
from serve_app.http.auth import Caller
from serve_app.http.cursors import next_id_cursor, read_id_cursor
from serve_app.http.event_replies import EventReply, event_reply_document, missing_id_problem
from serve_app.http.json_io import json_response, parse
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.http.problems import ProblemError
from serve_app.waits.event_models import InboxEvent, InboxPage
from serve_app.waits.rendering import inbox_event_document, inbox_item_document
from serve_app.waits.request_models import InboxQuery
from services.waits.intake import UnaddressedEvent
from storage.waits import inbox
from storage.waits.inbox import InboxFilter

router = APIRouter(tags=["inbox"])

InboxId = Annotated[int, Path(alias="inboxId", ge=1, lt=2**63)]
# Events with these verdicts are in the log of the correlation, so they leave the inbox.
_TAKEN = frozenset({Verdict.MATCHED, Verdict.DUPLICATE, Verdict.LATE})


@router.get(
    "/api/inbox",
    dependencies=[requires(Permission.INBOX_READ)],
    operation_id="listInbox",
    responses=describe_responses({200: InboxPage}),
)
async def list_inbox(request: Request, query: Annotated[InboxQuery, Query()]) -> Response:
    """List events that matched no wait, newest first, without their data."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    chosen = InboxFilter(
        verdict=query.verdict, reason=query.reason, correlation_id=query.correlation_id
    )
    before = read_id_cursor(query.cursor)
    found = await replica.listings.query(inbox.page, tenant, chosen, before, query.limit)
    ids = [row["inbox_id"] for row in found.items]
    more = next_id_cursor(ids, found.scanned_to, query.limit)
    return json_response(
        {"items": [inbox_item_document(row) for row in found.items], "nextCursor": more}
    )


@router.get(
    "/api/inbox/{inboxId}",
    dependencies=[requires(Permission.INBOX_READ)],
    operation_id="showInboxEvent",
    responses=describe_responses({200: InboxEvent}, 404),
)
async def show_inbox_event(request: Request, inbox_id: InboxId) -> Response:
    """Show one event with its data."""
    parked = await _read(replica_of(request), caller_of(request), inbox_id)
    return json_response(inbox_event_document(inbox_id, parked))


@router.post(
    "/api/inbox/{inboxId}/retry",
    dependencies=[requires(Permission.INBOX_WRITE)],
    operation_id="retryInboxEvent",
    responses=describe_responses({200: EventReply}, 400, 404),
)
async def retry_inbox_event(request: Request, inbox_id: InboxId) -> Response:
    """Offer an event again; it leaves the inbox if a wait takes it."""
    replica, caller = replica_of(request), caller_of(request)
    parked = await _read(replica, caller, inbox_id)
    offer = await _offer(replica, caller, parked)
    reply = await replica.client.send(offer)
    document = event_reply_document(offer, reply, brief=not caller.sees_expected)
    # An event that had no ids is stored under its new address, whatever the verdict.
    if document["verdict"] in _TAKEN or offer.address != parked.address:
        await replica.database.query(inbox.delete, caller.tenant, inbox_id)
    return json_response(document)


@router.delete(
    "/api/inbox/{inboxId}",
    dependencies=[requires(Permission.INBOX_WRITE)],
    operation_id="deleteInboxEvent",
    status_code=204,
    responses=describe_responses({}, 404),
)
async def delete_inbox_event(request: Request, inbox_id: InboxId) -> Response:
    """Delete an event from the inbox."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    if not await replica.database.query(inbox.delete, tenant, inbox_id):
        raise NotFoundError(f"inbox event {inbox_id}")
    return Response(status_code=204)


async def _read(replica: Replica, caller: Caller, inbox_id: int) -> ParkedEvent:
    parked = await replica.database.query(inbox.read, caller.tenant, inbox_id)
    if parked is None:
        raise NotFoundError(f"inbox event {inbox_id}")
    return parked


async def _offer(replica: Replica, caller: Caller, parked: ParkedEvent) -> Offer:
    """Offer the event with the ids it was first offered with: a repeated offer counts once."""
    if parked.address.correlation_id:
        return parked.to_offer()
    # Id fields may have been configured since the event came.
    event = IncomingEvent(
        source=parked.source,
        label=parked.label,
        raw=parked.payload,
        body=parse(parked.payload) if parked.content_type == JSON else None,
        headers={},
        content_type=parked.content_type,
    )
    offer = await replica.intake.address(caller.tenant, event)
    if isinstance(offer, UnaddressedEvent):
        raise ProblemError(missing_id_problem(offer.missing))
    return replace(offer, turn_id=parked.turn_id, event_id=parked.event_id)
