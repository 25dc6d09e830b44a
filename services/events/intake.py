"""Event intake: checks events against their types, stores them, and offers them to their waits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from core.events.event import Event
from core.shared.errors import OverloadedError, TransientError, UnavailableError
from core.shared.json_path import MISSING, document_of
from core.shared.media_types import JSON
from core.waits.incoming_event import IncomingEvent, offer_of
from core.waits.messages import Offer, OfferReply, RefusalKind, RefusedReply, Reply, WaitMessage
from core.waits.spec import DEFAULT_IDS, Source
from handlers.schemas.interface import Mismatch
from services.events.validator import EventValidator, ValidationResult
from services.events.writer import EventWriter, StoredEvent
from services.shared.time_slice import TimeSlice
from telemetry.registry import Metrics

INGRESS_CHANNEL = "events"
REFUSED = "refused"
"""The verdict in metrics on an event that its wait did not take."""
# Seconds between attempts to offer an event to a wait whose shard is behind.
RETRY_PAUSES = (0.1, 0.3, 0.9)


SendMany = Callable[[list[WaitMessage]], Awaitable[list[Reply]]]


class OfferAnswer(NamedTuple):
    """An event as it was offered to its wait, and the wait's reply."""

    offer: Offer
    reply: Reply


@dataclass(frozen=True, slots=True)
class IngestedEvent:
    """A stored event, or the first one with its id; schema warnings; its wait's answer."""

    event: Event
    duplicate: bool
    jobs: int
    warnings: tuple[Mismatch, ...] = ()
    wait: OfferAnswer | None = None


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """The first event of a request that its type does not allow, and its place in the request."""

    index: int
    event: Event
    result: ValidationResult


_Warnings = dict[int, tuple[Mismatch, ...]]


@dataclass(eq=False, repr=False)
class CloudEventIntake:
    """Takes in the events of a request: all of them or none."""

    _types: EventValidator
    _storage: EventWriter
    _send_many: SendMany
    _new_turn_id: Callable[[], str]
    _metrics: Metrics
    _timeout: float

    async def ingest(self, events: list[Event]) -> list[IngestedEvent] | RejectedEvent:
        """Store events and then offer them to their waits; return what became of each, in order.

        A wait's refusal is returned beside its stored event, never raised: the event is committed
        with its jobs, so nothing may ask the sender to send it again as if it were not. If one
        event is rejected, none is stored.

        Raises:
            TransientError: Nothing was stored, as far as is known.
        """
        checked = await self._check_in_time(events)
        if isinstance(checked, RejectedEvent):
            self._metrics.events.refused += len(events)
            return checked
        events, warnings = checked
        stored = await self._storage.put(events)
        self._count(stored, warnings)
        answers = await self._offer([one.event for one in stored])
        return [
            IngestedEvent(
                one.event, one.duplicate, one.jobs, warnings.get(index, ()), answers.get(index)
            )
            for index, one in enumerate(stored)
        ]

    async def _check_in_time(
        self, events: list[Event]
    ) -> tuple[list[Event], _Warnings] | RejectedEvent:
        # Each check has a time limit, but a batch may have a thousand events.
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._check(events)
        except TimeoutError:
            if not limit.expired():
                raise
            detail = "checking the events against their schemas took too long; none was stored"
            raise UnavailableError(detail, 2) from None

    async def _check(self, events: list[Event]) -> tuple[list[Event], _Warnings] | RejectedEvent:
        """Return the events with the versions they were checked against, and the warnings."""
        timeslice = TimeSlice()
        checked: list[Event] = []
        warnings: _Warnings = {}
        for index, event in enumerate(events):
            result = await self._types.check(
                event.tenant,
                event.type,
                event.type_version,
                event.content_type,
                _data(event),
                event.client,
            )
            if not result.accepted:
                return RejectedEvent(index, event, result)
            if result.mismatches:
                warnings[index] = result.mismatches
            has_new = result.version is not None and result.version != event.type_version
            checked.append(replace(event, type_version=result.version) if has_new else event)
            if timeslice.is_due:
                await timeslice.take()
        return checked, warnings

    async def _offer(self, events: Sequence[Event]) -> dict[int, OfferAnswer]:
        """Offer events to their waits; return the answers by index.

        Duplicates are offered as well: the process that stored the first may have died before it
        offered it.
        """
        offers = {
            index: offer_to_wait(event, self._new_turn_id())
            for index, event in enumerate(events)
            if event.execution_id is not None and event.correlation_id is not None
        }
        answers: dict[int, OfferAnswer] = {}
        for pause in (*RETRY_PAUSES, None):
            if not offers:
                break
            replies = await self._send([*offers.values()])
            for (index, offer), reply in zip([*offers.items()], replies, strict=True):
                if pause is None or not _is_overloaded(reply):
                    answers[index] = OfferAnswer(offer, reply)
                    verdict = reply.verdict if isinstance(reply, OfferReply) else REFUSED
                    self._metrics.count_event(INGRESS_CHANNEL, verdict)
                    del offers[index]
            if offers and pause is not None:
                await asyncio.sleep(pause)
        return answers

    async def _send(self, offers: list[WaitMessage]) -> list[Reply]:
        try:
            return await self._send_many(offers)
        except OverloadedError as error:
            return [RefusedReply(kind=RefusalKind.OVERLOADED, detail=str(error))] * len(offers)
        except TransientError as error:
            return [RefusedReply(kind=RefusalKind.FAILED, detail=str(error))] * len(offers)

    def _count(self, stored: Sequence[StoredEvent], warnings: _Warnings) -> None:
        counts = self._metrics.events
        duplicates = sum(one.duplicate for one in stored)
        counts.accepted += len(stored) - duplicates
        counts.duplicate += duplicates
        counts.warned += len(warnings)
        counts.jobs += sum(one.jobs for one in stored)


def _is_overloaded(reply: Reply) -> bool:
    # A shard that did not answer has used up the time already, so it is not tried again.
    return isinstance(reply, RefusedReply) and reply.kind is RefusalKind.OVERLOADED


def offer_to_wait(event: Event, turn_id: str) -> Offer:
    """Make the offer to an event's wait, which sees the event's type as a topic."""
    address = event.address
    if address is None:
        raise ValueError("an event without both ids is for no wait")
    document = document_of(event.data) if event.data is not None and event.is_json else None
    incoming = IncomingEvent(
        source=Source.KAFKA,
        channel=INGRESS_CHANNEL,
        label=event.type,
        raw=event.data if event.data is not None else b"null",
        body=None if document is MISSING else document,
        headers={},
        event_id=event.event_id,
        content_type=event.content_type or JSON,
    )
    return offer_of(address, DEFAULT_IDS, incoming, turn_id)


def _data(event: Event) -> bytes:
    """Return the data to check; an event without data is null where it could be JSON."""
    if event.data is not None:
        return event.data
    return b"null" if event.content_type is None or event.is_json else b""
