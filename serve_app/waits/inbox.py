"""The inbox: events that matched no wait, to show, offer again or delete."""

from typing import Annotated

from fastapi import Path, Query
from msgspec.structs import replace
from starlette.responses import Response

from core.shared.media_types import JSON
from core.waits.incoming_event import IncomingEvent
from core.waits.messages import Offer, Verdict
from core.waits.state import ParkedEvent
from serve_app.http.cursors import read_id_cursor
from serve_app.http.event_replies import EventReply, event_reply_document, missing_id_problem
from serve_app.http.json_io import json_response, parse
from serve_app.http.problems import ProblemError
from serve_app.http.router import Context, HttpRouter, unless_missing
from serve_app.waits.event_models import InboxEvent, InboxPage
from serve_app.waits.request_models import InboxQuery
from services.waits.intake import UnaddressedEvent
from storage.waits import inbox
from storage.waits.inbox import InboxFilter

router = HttpRouter("/api/inbox", tag="inbox", access="inbox")

InboxId = Annotated[int, Path(alias="inboxId", ge=1, lt=2**63)]
# Events with these verdicts are in the log of the correlation, so they leave the inbox.
_TAKEN = frozenset({Verdict.MATCHED, Verdict.DUPLICATE, Verdict.LATE})


@router.get()
async def list_inbox(query: Annotated[InboxQuery, Query()], context: Context) -> InboxPage:
    """List events that matched no wait, newest first, without their data."""
    chosen = InboxFilter(
        verdict=query.verdict, reason=query.reason, correlation_id=query.correlation_id
    )
    before = read_id_cursor(query.cursor)
    found = await context.list(inbox.page, chosen, before, query.limit)
    return InboxPage.of_scan(found, query.limit, lambda row: row["inbox_id"])


@router.get("/{inboxId}", refuses=(404,))
async def show_inbox_event(inbox_id: InboxId, context: Context) -> InboxEvent:
    """Show one event with its data."""
    return InboxEvent.of_parked(inbox_id, await _read(context, inbox_id))


@router.post("/{inboxId}/retry", answers={200: EventReply}, refuses=(400, 404))
async def retry_inbox_event(inbox_id: InboxId, context: Context) -> Response:
    """Offer an event again; it leaves the inbox if a wait takes it."""
    parked = await _read(context, inbox_id)
    offer = await _offer(context, parked)
    reply = await context.replica.client.send(offer)
    document = event_reply_document(offer, reply, brief=not context.caller.sees_expected)
    # An event that had no ids is stored under its new address, whatever the verdict.
    if document["verdict"] in _TAKEN or offer.address != parked.address:
        await context.read(inbox.delete, inbox_id)
    return json_response(document)


@router.delete("/{inboxId}", refuses=(404,))
async def delete_inbox_event(inbox_id: InboxId, context: Context) -> None:
    """Delete an event from the inbox."""
    unless_missing(await context.read(inbox.delete, inbox_id), f"inbox event {inbox_id}")


async def _read(context: Context, inbox_id: int) -> ParkedEvent:
    return unless_missing(await context.read(inbox.read, inbox_id), f"inbox event {inbox_id}")


async def _offer(context: Context, parked: ParkedEvent) -> Offer:
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
    offer = await context.replica.intake.address(context.tenant, event)
    if isinstance(offer, UnaddressedEvent):
        raise ProblemError(missing_id_problem(offer.missing))
    return replace(offer, turn_id=parked.turn_id, event_id=parked.event_id)
