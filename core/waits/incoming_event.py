"""An event as it came in, by whatever door; and the offer it becomes once its ids are known."""

from typing import Any

import msgspec

from core.shared.address import Address
from core.shared.media_types import JSON
from core.waits.correlation_ids import may_hold_ids, without_ids
from core.waits.messages import Offer, Reason, Verdict
from core.waits.spec import IdFields, Source
from core.waits.state import ParkedEvent


class IncomingEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a sender sent. Header names are in lower case.

    `door` and `label` tell where it came in; `event_id` is the sender's own id, if there is one.
    """

    source: Source
    label: str
    raw: bytes
    body: Any
    headers: dict[str, str]
    channel: str = "api"
    event_id: str | None = None
    content_type: str = JSON

    def __repr__(self) -> str:
        """Without headers and data: they may be secret."""
        return f"IncomingEvent({self.source.value}, {self.channel}/{self.label}, {self.event_id!r})"


def deduplication_id_of(arrival: IncomingEvent, turn_id: str) -> str:
    """The id an event is deduplicated by: the sender's own, or one for this request."""
    return f"{arrival.channel}/{arrival.label}/{arrival.event_id or turn_id}"


def offer_of(
    address: Address,
    fields: IdFields,
    arrival: IncomingEvent,
    turn_id: str,
    *,
    by_token: bool = False,
) -> Offer:
    """The offer to a correlation: the data without the ids that routed it."""
    return Offer(
        address=address,
        turn_id=turn_id,
        event_id=deduplication_id_of(arrival, turn_id),
        source=arrival.source,
        label=arrival.label,
        payload=_data_of(arrival, fields),
        content_type=arrival.content_type,
        by_token=by_token,
    )


def _data_of(arrival: IncomingEvent, fields: IdFields) -> bytes:
    """Data without ids in it is kept as it came, to the byte."""
    if not may_hold_ids(arrival.raw, fields):
        return arrival.raw
    cleaned = without_ids(arrival.body, fields)
    return arrival.raw if cleaned == arrival.body else msgspec.json.encode(cleaned)


def unaddressed_event(tenant: int, arrival: IncomingEvent, turn_id: str, now: float) -> ParkedEvent:
    """How an event is kept that names no correlation."""
    return ParkedEvent(
        address=Address(tenant, "", ""),
        turn_id=turn_id,
        event_id=deduplication_id_of(arrival, turn_id),
        source=arrival.source,
        label=arrival.label,
        payload=arrival.raw,
        content_type=arrival.content_type,
        verdict=Verdict.REJECTED,
        reason=Reason.MISSING_ID,
        clause=None,
        at=now,
    )
