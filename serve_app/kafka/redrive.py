"""Dead letters, tried again: by the code that reads Kafka, under the ids they had there.

A letter is settled after all of it is in Postgres. Whoever dies in between leaves it open; tried
once more, it is recognised by its place in its topic and changes nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.kafka.message import KafkaMessage
from core.shared.errors import UnavailableError
from core.shared.usage_counter import UsageCounter
from core.waits.state import ParkedEvent
from serve_app.waits.intake import insert_inbox_rows
from services.kafka.ingest import Ingest, IngestDeps, IngestResult
from services.shared.database import Database
from services.shared.listings import Listings
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetter, DeadLetterFilter, DeadLetterSize
from storage.postgres.pool import Pool
from storage.waits.probe import probe_waits
from storage.waits.usage_counts import count_parked

# Letters may be as large as brokers allow, so a round is bounded by weight as well as by number.
MAX_DEAD_LETTERS = 500
MAX_ROUND_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveSelection:
    """Which letters to try again: these, or the open ones that a filter finds; after which."""

    ids: tuple[int, ...] | None = None
    filter: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    after: int = 0
    limit: int = MAX_DEAD_LETTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveBatch:
    """The letters of one round, how far it gets, and what is left then."""

    ids: tuple[int, ...]
    reached: int
    remaining: int
    is_more: bool = False
    """Whether to go on: letters may be left where this round did not look."""
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRound:
    """What became of them."""

    selected: RedriveBatch
    done: IngestResult
    settled: tuple[int, ...]
    failures: tuple[tuple[DeadLetter, str], ...]
    """Letters that failed again, with the new error."""
    settled_before: tuple[int, ...] = ()


class InboxStore:
    """Postgres as ingest sees it in a redrive."""

    def __init__(
        self, database: Database, early_ttl: float, usage: UsageCounter | None = None
    ) -> None:
        self._database = database
        self._early_ttl = early_ttl
        self._usage = usage or UsageCounter()

    async def park(self, events: Sequence[ParkedEvent]) -> None:
        """Keep events without ids in the inbox."""
        rows = [(b"", event) for event in events]
        await self._database.query(insert_inbox_rows, rows, self._early_ttl)
        count_parked(self._usage, events)

    async def probe(self) -> None:
        """Raise what Postgres has against rows of any content, if it takes none now."""
        await self._database.query_once(_probe)

    async def bury(self, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]) -> None:
        """Nothing: they are buried already, and `Redrive` notes the new error."""


async def _probe(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await probe_waits(conn)


class Redrive:
    """Tries letters again, a bounded round at a time."""

    def __init__(
        self,
        means: IngestDeps,
        database: Database,
        listings: Listings,
        max_bytes: int,
        timeout_seconds: float,
    ) -> None:
        self._ingest = Ingest(means, max_bytes)
        self._database = database
        self._listings = listings
        self._timeout = timeout_seconds

    async def run(self, tenant: int, choice: RedriveSelection) -> RedriveRound:
        """One round.

        Raises:
            UnavailableError: It took too long. What was handled meanwhile is handled for good.
        """
        try:
            async with asyncio.timeout(self._timeout):
                selected = await self._select(tenant, choice)
                return await self._try(tenant, selected)
        except TimeoutError:
            detail = "the letters were not handled in time; those that are left can be tried again"
            raise UnavailableError(detail, 2) from None

    async def _try(self, tenant: int, selected: RedriveBatch) -> RedriveRound:
        letters = await self._database.query(dead_letters.read, tenant, selected.ids)
        open_ = {(one.topic, one.partition, one.offset): one for one in letters if not one.settled}
        records = [one.message for one in open_.values() if one.message is not None]
        done = await self._ingest.handle(tenant, records) if records else IngestResult()
        failures = tuple(
            (open_.pop((record.topic, record.partition, record.offset)), error)
            for record, error in done.dead_letters
        )
        settled = tuple(one.letter_id for one in open_.values())
        if settled:
            await self._database.query(dead_letters.mark_redriven, tenant, settled)
        if failures:
            new_errors = [(letter.letter_id, error) for letter, error in failures]
            await self._database.query_once(dead_letters.mark_failed, tenant, new_errors)
        return RedriveRound(
            selected=selected,
            done=done,
            settled=settled,
            failures=failures,
            settled_before=tuple(one.letter_id for one in letters if one.settled),
        )

    async def _select(self, tenant: int, choice: RedriveSelection) -> RedriveBatch:
        if choice.ids is not None:
            requested = remaining_ids(choice)
            found = await self._database.query(
                dead_letters.read_sizes, tenant, requested[: choice.limit]
            )
            return select_named(requested, choice.limit, found)
        meant = await self._listings.query(
            dead_letters.upcoming, tenant, choice.filter, choice.after, choice.limit
        )
        taken = ids_within_budget(meant.items)
        is_cut = len(meant.items) == choice.limit or len(taken) < len(meant.items)
        reached = taken[-1] if is_cut else meant.scanned_to
        if reached is None:
            return RedriveBatch(
                ids=taken, reached=taken[-1] if taken else choice.after, remaining=0
            )
        remaining = await self._listings.query(
            dead_letters.count_upcoming, tenant, choice.filter, reached
        )
        return RedriveBatch(
            ids=taken,
            reached=reached,
            remaining=remaining,
            is_more=remaining > 0 or meant.scanned_to is not None,
        )


def remaining_ids(choice: RedriveSelection) -> list[int]:
    """The ids that are still to be tried, in order."""
    return sorted({one for one in choice.ids or () if one > choice.after})


def select_named(
    requested: Sequence[int], limit: int, found: Sequence[DeadLetterSize]
) -> RedriveBatch:
    """The first of the asked letters; those that do not exist are told."""
    page = requested[:limit]
    taken = ids_within_budget(found)
    is_cut = len(taken) < len(found)
    reached = taken[-1] if is_cut else max(page, default=0)
    known = {one.letter_id for one in found}
    return RedriveBatch(
        ids=taken,
        reached=reached,
        remaining=(remaining := sum(one > reached for one in requested)),
        is_more=remaining > 0,
        unknown=tuple(one for one in page if one <= reached and one not in known),
    )


def ids_within_budget(
    found: Sequence[DeadLetterSize], budget: int = MAX_ROUND_BYTES
) -> tuple[int, ...]:
    """As many of the first letters as may be held in memory at once; one in any case."""
    taken: list[int] = []
    weight = 0
    for one in found:
        weight += one.size
        if taken and weight > budget:
            break
        taken.append(one.letter_id)
    return tuple(taken)
