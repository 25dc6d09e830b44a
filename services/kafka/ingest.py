"""From records to rows: every record of a batch ends in a correlation, the inbox or a dead letter.

Nothing here knows of Kafka's client or of Ray. A batch is done when all of it is in Postgres; until
then it is tried again, which is safe because a record is deduplicated by its place in its topic.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from core.kafka.message import KafkaMessage, UndecodableMessage, read_message
from core.shared.address import Address
from core.shared.backoff import backoff
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.correlation_ids import CorrelationIds, MissingId
from core.waits.incoming_event import IncomingEvent, offer_of, unaddressed_event
from core.waits.messages import Offer, OfferReply, RefusalKind, RefusedReply, Reply, WaitMessage
from core.waits.state import ParkedEvent
from services.shared.split_write import SplitWrite
from services.waits.correlation_resolver import CorrelationResolver
from storage.postgres.error_class import is_server_error

log = structlog.get_logger("ingest")

# How often one event may fail, at two seconds each, while its shard takes others.
MAX_FAILURES = 60
# How often one record alone may take longer than a statement may, while others do not.
SLOW_TRIES = 10


class IngestStore(Protocol):
    """What ingest writes itself."""

    async def park(self, events: Sequence[ParkedEvent]) -> None:
        """Keep events without ids in the inbox."""
        ...

    async def bury(self, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]) -> None:
        """Keep records that could not be handled."""
        ...

    async def probe(self) -> None:
        """Raise what Postgres has against rows of any content, if it takes none now."""
        ...


class EventHook(Protocol):
    """Who else wants to see every event: rules that a trigger starts."""

    async def __call__(self, tenant: int, arrivals: Sequence[IncomingEvent]) -> None:
        """Take events that are or will be stored; may be told twice."""
        ...


async def no_hook(tenant: int, arrivals: Sequence[IncomingEvent]) -> None:
    """Nobody listens yet."""


@dataclass(slots=True)
class IngestResult:
    """What became of a batch."""

    records: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    unplaced: int = 0
    dead_letters: list[tuple[KafkaMessage, str]] = field(default_factory=list)

    def count(self, verdict: str, times: int = 1) -> None:
        """More of these."""
        self.verdicts[verdict] = self.verdicts.get(verdict, 0) + times

    def add(self, other: "IngestResult") -> None:
        """What became of another part of it."""
        self.records += other.records
        self.unplaced += other.unplaced
        self.dead_letters += other.dead_letters
        for verdict, times in other.verdicts.items():
            self.count(verdict, times)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestDeps:
    """What ingest works with."""

    addressing: CorrelationResolver
    send_many: Callable[[list[WaitMessage]], Awaitable[list[Reply]]]
    store: IngestStore
    now: Callable[[], float]
    chance: Callable[[], float]
    new_turn_id: Callable[[], str]
    hook: EventHook = no_hook


class Ingest:
    """Handles batches of one consumer."""

    def __init__(self, deps: IngestDeps, max_bytes: int) -> None:
        self._deps = deps
        self._max_bytes = max_bytes
        self._incarnation = deps.new_turn_id()
        self._numbers = itertools.count(1)
        # Whether shards are behind: the consumer then stops reading.
        self.held_back = 0

    async def handle(self, tenant: int, records: Sequence[KafkaMessage]) -> IngestResult:
        """See a batch of one tenant through; returns when all of it is in Postgres.

        Trouble of the server holds it back for as long as it lasts. What cannot be stored is found
        by halves, so that it takes nothing else along, and is buried.
        """
        done = IngestResult()

        async def settle(_: list[KafkaMessage], handled: IngestResult) -> None:
            done.add(handled)

        async def refuse(record: KafkaMessage, error: Exception) -> None:
            log.error(
                "ingest.record_failed", topic=record.topic, place=record.place, exc_info=error
            )
            done.add(await self._dead_letter_with_retries(tenant, record, repr(error)))

        async def pause(attempt: int, error: Exception) -> None:
            log.warning("ingest.database_away", error=type(error).__name__)
            await self._back_off(attempt, len(records))

        writing = SplitWrite(
            write=partial(self._try, tenant),
            settle=settle,
            refuse=refuse,
            probe=self._deps.store.probe,
            pause=pause,
            slow_tries=SLOW_TRIES,
        )
        await writing.run(records)
        return done

    async def _dead_letter_with_retries(
        self, tenant: int, record: KafkaMessage, error: str
    ) -> IngestResult:
        attempt = 0
        while True:
            try:
                await self._deps.store.bury(tenant, [(record, error)])
            except Exception as trouble:
                if not is_server_error(trouble):
                    # Not even as a dead letter: the log is all that is left of it.
                    log.exception("ingest.not_buried", topic=record.topic, place=record.place)
                    return IngestResult(records=1, dead_letters=[(record, error)])
                await self._back_off(attempt, 1)
                attempt += 1
            else:
                return IngestResult(records=1, dead_letters=[(record, error)])

    async def _try(self, tenant: int, records: Sequence[KafkaMessage]) -> IngestResult:
        # Delivered again, it is another turn about the same events.
        turn_id = f"{self._incarnation}.{next(self._numbers)}"
        done = IngestResult(records=len(records))
        read: list[tuple[KafkaMessage, IncomingEvent]] = []
        for record in records:
            arrival = self._read(record)
            if isinstance(arrival, UndecodableMessage):
                done.dead_letters.append((record, arrival.error))
            else:
                read.append((record, arrival))
        arrivals = [arrival for _, arrival in read]
        found = await self._deps.addressing.find_all(tenant, arrivals) if arrivals else []
        await self._park(tenant, turn_id, arrivals, found, done)
        await self._offer(tenant, turn_id, read, found, done)
        await self._deps.hook(tenant, arrivals)
        if done.dead_letters:
            await self._deps.store.bury(tenant, done.dead_letters)
        return done

    def _read(self, record: KafkaMessage) -> IncomingEvent | UndecodableMessage:
        size = len(record.value or b"")
        if size > self._max_bytes:
            return UndecodableMessage(
                f"{size} bytes; the most is {self._max_bytes} (MUSTER_MAX_BODY)"
            )
        return read_message(record)

    async def _park(
        self,
        tenant: int,
        turn_id: str,
        arrivals: list[IncomingEvent],
        found: list[CorrelationIds | MissingId],
        done: IngestResult,
    ) -> None:
        now = self._deps.now()
        homeless = [
            unaddressed_event(tenant, arrival, turn_id, now)
            for arrival, ids in zip(arrivals, found, strict=True)
            if isinstance(ids, MissingId)
        ]
        if homeless:
            await self._deps.store.park(homeless)
            done.unplaced = len(homeless)

    async def _offer(
        self,
        tenant: int,
        turn_id: str,
        read: list[tuple[KafkaMessage, IncomingEvent]],
        found: list[CorrelationIds | MissingId],
        done: IngestResult,
    ) -> None:
        """Offer what has ids, again and again, until each has an answer."""
        open_: list[tuple[KafkaMessage, Offer]] = []
        for (record, arrival), ids in zip(read, found, strict=True):
            if isinstance(ids, CorrelationIds):
                address = Address(tenant, ids.execution_id, ids.correlation_id)
                open_.append((record, offer_of(address, ids.fields, arrival, turn_id)))
        attempt = 0
        failures: dict[str, int] = {}
        while open_:
            replies = await self._send([offer for _, offer in open_])
            again = []
            for (record, offer), reply in zip(open_, replies, strict=True):
                if _is_to_be_tried_again(reply, offer, failures):
                    again.append((record, offer))
                else:
                    _note(done, record, reply)
            open_ = again
            if open_:
                await self._back_off(attempt, len(open_))
                attempt += 1

    async def _send(self, offers: list[Offer]) -> list[Reply]:
        try:
            return await self._deps.send_many(list(offers))
        except (OverloadedError, UnavailableError) as error:
            busy = RefusedReply(kind=RefusalKind.OVERLOADED, detail=str(error))
            return [busy] * len(offers)

    async def _back_off(self, attempt: int, events: int) -> None:
        log.warning("ingest.held_back", events=events, attempt=attempt)
        self.held_back += 1
        try:
            pause = backoff(attempt, base=0.1, cap=2.0, jitter=self._deps.chance())
            await asyncio.sleep(pause)
        finally:
            self.held_back -= 1


def _is_to_be_tried_again(reply: Reply, offer: Offer, failures: dict[str, int]) -> bool:
    """Whether to offer an event again.

    A shard that is behind or away is waited for as long as it takes. One that takes others and
    fails at this event is asked a bounded number of times.
    """
    if not isinstance(reply, RefusedReply) or not reply.is_transient:
        return False
    if reply.kind is RefusalKind.OVERLOADED:
        return True
    failures[offer.event_id] = failures.get(offer.event_id, 0) + 1
    return failures[offer.event_id] < MAX_FAILURES


def _note(done: IngestResult, record: KafkaMessage, reply: Reply) -> None:
    """Count what became of a record for good."""
    if isinstance(reply, OfferReply):
        done.count(reply.verdict)
    elif isinstance(reply, RefusedReply) and reply.kind is RefusalKind.FULL and reply.verdict:
        # Nothing is lost but a line of a log that has hundreds like it.
        done.count(reply.verdict)
    else:
        done.dead_letters.append((record, _describe_refusal(reply)))


def _describe_refusal(reply: Reply) -> str:
    if isinstance(reply, RefusedReply):
        return f"{reply.kind}: {reply.detail}"
    return f"answered with {type(reply).__name__}"
