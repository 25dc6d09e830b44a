"""The inbox: events that no wait took are kept with their verdict, up to a limit per address."""

from collections.abc import Mapping

import msgspec

from core.waits.limits import WaitLimits
from core.waits.messages import Difference, Offer, OfferReply, Reason, Verdict
from core.waits.state import Decision, ParkedEvent


class UnregisteredAddress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of an address that nobody has registered."""

    early: tuple[ParkedEvent, ...] = ()
    """Events that a registration would take from the inbox."""
    sizes: Mapping[str, int] = {}
    """The size in bytes of each event in the inbox, by event id."""
    refused: int = 0
    """How many stored events were refused because there were too many."""
    elsewhere: str | None = None
    """An execution that waits under the same correlation id."""


UNREGISTERED = UnregisteredAddress()


def park_offer(
    offer: Offer, now: float, found: UnregisteredAddress, limits: WaitLimits
) -> Decision:
    """Keep an event that has no wait, for a later registration under the same ids."""
    if offer.event_id not in found.sizes:
        clause = _exceeded(len(offer.payload), found, limits)
        if clause is not None:
            return _refuse(offer, now, clause, noted=found.refused < limits.early_events)
    if found.elsewhere is None:
        reply = OfferReply(verdict=Verdict.BUFFERED, reason=Reason.NO_WAIT_YET)
    else:
        clause = Difference("executionId", found.elsewhere, offer.address.execution_id)
        reply = OfferReply(
            verdict=Verdict.REJECTED, reason=Reason.EXECUTION_MISMATCH, clause=clause
        )
    return Decision(wait=None, reply=reply, parked=(parked_event(offer, reply, now),))


def _exceeded(size: int, found: UnregisteredAddress, limits: WaitLimits) -> Difference | None:
    """Return the limit that this event would exceed. The first event always has room."""
    count = len(found.sizes)
    if count >= limits.early_events:
        return Difference("earlyEvents", limits.early_events, count + 1)
    together = sum(found.sizes.values()) + size
    if count and together > limits.early_bytes:
        return Difference("earlyBytes", limits.early_bytes, together)
    return None


def _refuse(offer: Offer, now: float, clause: Difference, *, noted: bool) -> Decision:
    """Refuse an event; a limited number of refused events is stored, without data."""
    reply = OfferReply(verdict=Verdict.REJECTED, reason=Reason.TOO_MANY_EARLY, clause=clause)
    note = msgspec.structs.replace(parked_event(offer, reply, now), payload=b"")
    return Decision(wait=None, reply=reply, parked=(note,) if noted else ())


def parked_event(offer: Offer, reply: OfferReply, now: float) -> ParkedEvent:
    return ParkedEvent(
        **msgspec.structs.asdict(offer),
        verdict=reply.verdict,
        reason=reply.reason,
        clause=reply.clause,
        at=now,
    )
