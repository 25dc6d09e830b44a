"""An event as it came in, by whatever door; and the offer it becomes once its ids are known."""

from typing import Any

import msgspec

from core.shared.address import Address
from core.waits.correlation_ids import may_hold_ids, stripped
from core.waits.messages import Offer, Reason, Verdict
from core.waits.spec import IdFields, Source
from core.waits.state import Parked

JSON = "application/json"


class Arrival(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a sender sent. Header names are in lower case.

    `door` and `label` tell where it came in; `event_id` is the sender's own id, if there is one.
    """

    source: Source
    label: str
    raw: bytes
    body: Any
    headers: dict[str, str]
    door: str = "api"
    event_id: str | None = None
    content_type: str = JSON

    def __repr__(self) -> str:
        """Without headers and data: they may be secret."""
        return f"Arrival({self.source.value}, {self.door}/{self.label}, {self.event_id!r})"


def event_id_of(arrival: Arrival, turn_id: str) -> str:
    """The id an event is deduplicated by: the sender's own, or one for this request."""
    return f"{arrival.door}/{arrival.label}/{arrival.event_id or turn_id}"


def offer_of(
    address: Address,
    fields: IdFields,
    arrival: Arrival,
    turn_id: str,
    *,
    by_token: bool = False,
) -> Offer:
    """The offer to a correlation: the data without the ids that routed it."""
    return Offer(
        address=address,
        turn_id=turn_id,
        event_id=event_id_of(arrival, turn_id),
        source=arrival.source,
        label=arrival.label,
        payload=_data_of(arrival, fields),
        content_type=arrival.content_type,
        by_token=by_token,
    )


def _data_of(arrival: Arrival, fields: IdFields) -> bytes:
    """Data without ids in it is kept as it came, to the byte."""
    if not may_hold_ids(arrival.raw, fields):
        return arrival.raw
    cleaned = stripped(arrival.body, fields)
    return arrival.raw if cleaned == arrival.body else msgspec.json.encode(cleaned)


def unplaced(tenant: int, arrival: Arrival, turn_id: str, now: float) -> Parked:
    """How an event is kept that names no correlation."""
    return Parked(
        address=Address(tenant, "", ""),
        turn_id=turn_id,
        event_id=event_id_of(arrival, turn_id),
        source=arrival.source,
        label=arrival.label,
        payload=arrival.raw,
        content_type=arrival.content_type,
        verdict=Verdict.REJECTED,
        reason=Reason.MISSING_ID,
        clause=None,
        at=now,
    )
