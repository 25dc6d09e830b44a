"""Ingest of Kafka messages: each ends in a correlation, in the inbox or as a dead letter.

A batch is done when all of it is in Postgres; until then it is tried again, which is safe because a
message is deduplicated by its position in its topic.
"""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from core.kafka.message import KafkaMessage, UndecodableMessage, read_message
from core.shared.address import Address
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.incoming_event import IncomingEvent, MissingIds, offer_of, unaddressed_event
from core.waits.messages import Offer, OfferReply, RefusalKind, RefusedReply, Reply, WaitMessage
from core.waits.state import ParkedEvent
from services.kafka.ingest_store import PostgresIngestStore
from services.shared.retry import log_outage, pause
from services.shared.split_write import SplitWrite
from services.waits.intake import CorrelationResolver
from storage.postgres.error_class import is_server_error

log = structlog.get_logger("ingest")

# Attempts for one event, at two seconds each, while its shard takes others.
MAX_FAILURES = 60
# Attempts for one message that alone takes longer than a statement may, while others do not.
SLOW_TRIES = 10


@dataclass(slots=True)
class IngestResult:
    """What became of a batch of messages."""

    messages: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    unplaced: int = 0
    dead_letters: list[tuple[KafkaMessage, str]] = field(default_factory=list)

    def add(self, other: "IngestResult") -> None:
        self.messages += other.messages
        self.unplaced += other.unplaced
        self.dead_letters += other.dead_letters
        self.verdicts.update(other.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestDeps:
    """The collaborators of ingest."""

    resolver: CorrelationResolver
    send_many: Callable[[list[WaitMessage]], Awaitable[list[Reply]]]
    store: PostgresIngestStore
    now: Callable[[], float]
    chance: Callable[[], float]
    new_turn_id: Callable[[], str]


class Ingest:
    """Handles the batches of one consumer."""

    def __init__(self, deps: IngestDeps, max_bytes: int) -> None:
        self._deps = deps
        self._max_bytes = max_bytes
        self._incarnation = deps.new_turn_id()
        self._numbers = itertools.count(1)
        # Not 0 while shards are behind: the consumer then stops reading.
        self.held_back = 0

    async def handle(self, tenant: int, messages: Sequence[KafkaMessage]) -> IngestResult:
        """Handle a batch of one tenant; return when all of it is in Postgres.

        Server errors hold the batch back for as long as they last. A message that cannot be stored
        is found by halving the batch, and becomes a dead letter.
        """
        done = IngestResult()

        async def settle(_: list[KafkaMessage], handled: IngestResult) -> None:
            done.add(handled)

        async def refuse(message: KafkaMessage, error: Exception) -> None:
            log.error(
                "ingest.message_failed",
                topic=message.topic,
                position=message.position,
                exc_info=error,
            )
            done.add(await self._dead_letter_with_retries(tenant, message, repr(error)))

        async def wait(attempt: int, error: Exception) -> None:
            log_outage(error, who="ingest")
            await self._back_off(attempt, len(messages))

        writing = SplitWrite(
            write=partial(self._try, tenant),
            settle=settle,
            refuse=refuse,
            probe=self._deps.store.probe,
            pause=wait,
            slow_tries=SLOW_TRIES,
        )
        await writing.run(messages)
        return done

    async def _dead_letter_with_retries(
        self, tenant: int, message: KafkaMessage, error: str
    ) -> IngestResult:
        attempt = 0
        while True:
            try:
                await self._deps.store.add_dead_letters(tenant, [(message, error)])
            except Exception as failure:
                if is_server_error(failure):
                    await self._back_off(attempt, 1)
                    attempt += 1
                    continue
                # The log keeps the only trace of this message.
                log.exception(
                    "ingest.dead_letter_lost", topic=message.topic, position=message.position
                )
            return IngestResult(messages=1, dead_letters=[(message, error)])

    async def _try(self, tenant: int, messages: Sequence[KafkaMessage]) -> IngestResult:
        # A second attempt is another turn about the same events.
        turn_id = f"{self._incarnation}.{next(self._numbers)}"
        done = IngestResult(messages=len(messages))
        decoded: list[tuple[KafkaMessage, IncomingEvent]] = []
        for message in messages:
            event = self._read(message)
            if isinstance(event, UndecodableMessage):
                done.dead_letters.append((message, event.error))
            else:
                decoded.append((message, event))
        events = [event for _, event in decoded]
        found = await self._deps.resolver.find_all(tenant, events) if events else []
        offers: list[tuple[KafkaMessage, Offer]] = []
        without_ids: list[ParkedEvent] = []
        for (message, event), ids in zip(decoded, found, strict=True):
            if isinstance(ids, MissingIds):
                without_ids.append(unaddressed_event(tenant, event, turn_id, self._deps.now()))
            else:
                address = Address(tenant, ids.execution_id, ids.correlation_id)
                offers.append((message, offer_of(address, ids.fields, event, turn_id)))
        if without_ids:
            await self._deps.store.park(without_ids)
            done.unplaced = len(without_ids)
        await self._offer(offers, done)
        if done.dead_letters:
            await self._deps.store.add_dead_letters(tenant, done.dead_letters)
        return done

    def _read(self, message: KafkaMessage) -> IncomingEvent | UndecodableMessage:
        size = len(message.value or b"")
        if size > self._max_bytes:
            return UndecodableMessage(
                f"{size} bytes; the limit is {self._max_bytes} (MUSTER_MAX_BODY)"
            )
        return read_message(message)

    async def _offer(self, open_: list[tuple[KafkaMessage, Offer]], done: IngestResult) -> None:
        """Offer events until each has a final reply."""
        attempt = 0
        failures: dict[str, int] = {}
        while open_:
            replies = await self._send([offer for _, offer in open_])
            again = []
            for (message, offer), reply in zip(open_, replies, strict=True):
                if _is_to_be_retried(reply, offer, failures):
                    again.append((message, offer))
                else:
                    _note(done, message, reply)
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
            await pause(attempt, base=0.1, cap=2.0, chance=self._deps.chance)
        finally:
            self.held_back -= 1


def _is_to_be_retried(reply: Reply, offer: Offer, failures: dict[str, int]) -> bool:
    """Return True if the event is to be offered again.

    There is no limit while a shard is behind or away. A shard that takes others and fails at this
    event gets a bounded number of attempts.
    """
    if not isinstance(reply, RefusedReply) or not reply.is_transient:
        return False
    if reply.kind is RefusalKind.OVERLOADED:
        return True
    failures[offer.event_id] = failures.get(offer.event_id, 0) + 1
    return failures[offer.event_id] < MAX_FAILURES


def _note(done: IngestResult, message: KafkaMessage, reply: Reply) -> None:
    if isinstance(reply, OfferReply):
        done.verdicts[reply.verdict] += 1
    elif isinstance(reply, RefusedReply) and reply.kind is RefusalKind.FULL and reply.verdict:
        # Only a log entry is missing, of a log that has hundreds like it.
        done.verdicts[reply.verdict] += 1
    else:
        done.dead_letters.append((message, _describe_refusal(reply)))


def _describe_refusal(reply: Reply) -> str:
    if isinstance(reply, RefusedReply):
        return f"{reply.kind}: {reply.detail}"
    return f"answered with {type(reply).__name__}"
