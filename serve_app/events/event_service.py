"""Events that are posted: held against their types, stored, and offered to their waits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from core.events.event import Event
from core.shared.errors import OverloadedError, TransientError, UnavailableError
from core.shared.json_path import MISSING, document_of
from core.shared.media_types import JSON
from core.waits.incoming_event import IncomingEvent, offer_of
from core.waits.messages import Offer, RefusalKind, RefusedReply, Reply, WaitMessage
from core.waits.spec import DEFAULT_IDS, Source
from handlers.schemas.interface import Mismatch
from serve_app.events.event_rendering import IngestedEvent, validation_error
from serve_app.http.models import Document
from serve_app.waits.replies import stored_event_reply_document
from services.events.validator import ValidationResult
from services.events.writer import StoredEvent
from services.shared.process import new_turn_id
from services.shared.time_slice import TimeSlice
from telemetry.registry import Metrics

INGRESS_CHANNEL = "events"
# Between tries to offer an event to a wait whose shard is behind, in seconds.
PAUSES = (0.1, 0.3, 0.9)


class Writer(Protocol):
    """Who stores events."""

    async def put(self, events: list[Event]) -> list[StoredEvent]:
        """Store them; what became of each."""
        ...


class EventChecker(Protocol):
    """Who knows the types of events."""

    async def check(
        self,
        tenant: int,
        code: str,
        version: str | None,
        content_type: str | None,
        data: bytes,
        client: str | None = None,
    ) -> ValidationResult:
        """Whether an event is what its type says."""
        ...


SendMany = Callable[[list[WaitMessage]], Awaitable[list[Reply]]]


class EventService:
    """Takes events: none, or all that came together."""

    def __init__(
        self,
        checker: EventChecker,
        writer: Writer,
        send_many: SendMany,
        metrics: Metrics,
        timeout_seconds: float,
    ) -> None:
        self._timeout = timeout_seconds
        self._checker = checker
        self._writer = writer
        self._send_many = send_many
        self._metrics = metrics

    async def take(
        self, events: list[Event], *, is_batch: bool = False, brief: bool = False
    ) -> list[IngestedEvent]:
        """Store events; what became of each, in order. A wait is offered its event afterwards.

        `brief` leaves out what their waits expect.
        What its wait says is told beside a stored event, whatever it is: the event is committed
        with its jobs, so nothing may ask the sender to send it again as if it were not.

        Raises:
            ProblemError: One is not what its type says; nothing was stored.
            TransientError: Not now: nothing was stored, as far as is known.
        """
        events, warnings = await self._validated_in_time(events, is_batch)
        stored = await self._writer.put(events)
        self._count(stored, warnings)
        waits = await self._offered([one.event for one in stored], brief)
        return [
            IngestedEvent(
                one.event, one.duplicate, one.jobs, warnings.get(index, ()), waits.get(index)
            )
            for index, one in enumerate(stored)
        ]

    async def _validated_in_time(
        self, events: list[Event], is_batch: bool
    ) -> tuple[list[Event], dict[int, tuple[Mismatch, ...]]]:
        """All of them: each check has a limit of its own, and a batch may have a thousand."""
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._validated(events, is_batch)
        except TimeoutError:
            if not limit.expired():
                raise
            detail = "the events were not held against their schemas in time; none was stored"
            raise UnavailableError(detail, 2) from None

    async def _validated(
        self, events: list[Event], is_batch: bool
    ) -> tuple[list[Event], dict[int, tuple[Mismatch, ...]]]:
        """The events with the versions they were held against, and what did not fit."""
        timeslice = TimeSlice()
        validated: list[Event] = []
        warnings: dict[int, tuple[Mismatch, ...]] = {}
        for index, event in enumerate(events):
            result = await self._checker.check(
                event.tenant,
                event.type,
                event.type_version,
                event.content_type,
                _data(event),
                event.client,
            )
            if not result.accepted:
                self._metrics.events.refused += len(events)
                raise validation_error(event, result, f"[{index}]." if is_batch else "")
            if result.mismatches:
                warnings[index] = result.mismatches
            is_news = result.version is not None and result.version != event.type_version
            validated.append(replace(event, type_version=result.version) if is_news else event)
            if timeslice.is_due:
                await timeslice.take()
        return validated, warnings

    async def _offered(self, events: Sequence[Event], brief: bool) -> dict[int, Document]:
        """What the waits of these events made of them, by index.

        Also of one that was known already: whoever stored it may have come no further.
        """
        offers: dict[int, Offer] = {}
        for index, event in enumerate(events):
            if event.execution_id is not None and event.correlation_id is not None:
                offers[index] = offer_to_wait(event)
        if not offers:
            return {}
        documents: dict[int, Document] = {}
        for pause in (*PAUSES, None):
            passing: dict[int, Offer] = {}
            replies = await self._send([*offers.values()])
            for (index, offer), reply in zip(offers.items(), replies, strict=True):
                if pause is not None and _is_worth_another_try(reply):
                    passing[index] = offer
                else:
                    documents[index] = stored_event_reply_document(offer, reply, brief=brief)
                    self._metrics.count_event(INGRESS_CHANNEL, documents[index]["verdict"])
            offers = passing
            if not offers or pause is None:
                break
            await asyncio.sleep(pause)
        return documents

    async def _send(self, offers: list[WaitMessage]) -> list[Reply]:
        try:
            return await self._send_many(offers)
        except OverloadedError as error:
            return [RefusedReply(kind=RefusalKind.OVERLOADED, detail=str(error))] * len(offers)
        except TransientError as error:
            return [RefusedReply(kind=RefusalKind.FAILED, detail=str(error))] * len(offers)

    def _count(
        self, stored: Sequence[StoredEvent], warnings: dict[int, tuple[Mismatch, ...]]
    ) -> None:
        counts = self._metrics.events
        duplicates = sum(one.duplicate for one in stored)
        counts.accepted += len(stored) - duplicates
        counts.duplicate += duplicates
        counts.warned += len(warnings)
        counts.jobs += sum(one.jobs for one in stored)


def _is_worth_another_try(reply: Reply) -> bool:
    """Only of a shard that is behind: one that did not answer has taken its time already."""
    return isinstance(reply, RefusedReply) and reply.kind is RefusalKind.OVERLOADED


def offer_to_wait(event: Event) -> Offer:
    """The event as its wait gets it: as if its type were a topic."""
    address = event.address
    if address is None:
        raise ValueError("an event without both ids is for no wait")
    document = document_of(event.data) if event.data is not None and event.is_json else None
    arrival = IncomingEvent(
        source=Source.KAFKA,
        channel=INGRESS_CHANNEL,
        label=event.type,
        raw=event.data if event.data is not None else b"null",
        body=None if document is MISSING else document,
        headers={},
        event_id=event.event_id,
        content_type=event.content_type or JSON,
    )
    return offer_of(address, DEFAULT_IDS, arrival, new_turn_id())


def _data(event: Event) -> bytes:
    """What is held against a schema; no data is null, where it could be JSON."""
    if event.data is not None:
        return event.data
    return b"null" if event.content_type is None or event.is_json else b""
