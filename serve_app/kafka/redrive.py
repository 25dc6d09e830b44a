"""Dead letters, tried again: by the code that reads Kafka, under the ids they had there.

A letter is settled after all of it is in Postgres. Whoever dies in between leaves it open; tried
once more, it is recognised by its place in its topic and changes nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.kafka.message import Record
from core.shared.errors import UnavailableError
from core.shared.usage_counter import UsageCounter
from core.waits.state import Parked
from serve_app.waits.intake import park_rows
from services.kafka.ingest import Handled, Ingest, Means
from services.shared.database import Database
from services.shared.listings import Listings
from storage.access.usage_counts import count_parked
from storage.kafka import dead_letters
from storage.kafka.dead_letters import Letter, LetterFilter, Weighed
from storage.postgres.pool import Pool
from storage.postgres.probe import probe_waits

# Letters may be as large as brokers allow, so a round is bounded by weight as well as by number.
MOST = 500
BUDGET = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which letters to try again: these, or the open ones that a filter finds; after which."""

    ids: tuple[int, ...] | None = None
    filter: LetterFilter = field(default_factory=LetterFilter)
    after: int = 0
    limit: int = MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The letters of one round, how far it gets, and what is left then."""

    ids: tuple[int, ...]
    reached: int
    remaining: int
    is_more: bool = False
    """Whether to go on: letters may be left where this round did not look."""
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What became of them."""

    selected: Selected
    done: Handled
    settled: tuple[int, ...]
    failures: tuple[tuple[Letter, str], ...]
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

    async def park(self, events: Sequence[Parked]) -> None:
        """Keep events without ids in the inbox."""
        rows = [(b"", event) for event in events]
        await self._database.ask(park_rows, rows, self._early_ttl)
        count_parked(self._usage, events)

    async def probe(self) -> None:
        """Raise what Postgres has against rows of any content, if it takes none now."""
        await self._database.ask_once(_probe)

    async def bury(self, tenant: int, failed: Sequence[tuple[Record, str]]) -> None:
        """Nothing: they are buried already, and `Redrive` notes the new error."""


async def _probe(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await probe_waits(conn)


class Redrive:
    """Tries letters again, a bounded round at a time."""

    def __init__(
        self,
        means: Means,
        database: Database,
        listings: Listings,
        max_bytes: int,
        patience: float,
    ) -> None:
        self._ingest = Ingest(means, max_bytes)
        self._database = database
        self._listings = listings
        self._patience = patience

    async def run(self, tenant: int, choice: Choice) -> Round:
        """One round.

        Raises:
            UnavailableError: It took too long. What was handled meanwhile is handled for good.
        """
        try:
            async with asyncio.timeout(self._patience):
                selected = await self._select(tenant, choice)
                return await self._try(tenant, selected)
        except TimeoutError:
            detail = "the letters were not handled in time; those that are left can be tried again"
            raise UnavailableError(detail, 2) from None

    async def _try(self, tenant: int, selected: Selected) -> Round:
        letters = await self._database.ask(dead_letters.read, tenant, selected.ids)
        open_ = {(one.topic, one.partition, one.offset): one for one in letters if not one.settled}
        records = [one.record for one in open_.values() if one.record is not None]
        done = await self._ingest.handle(tenant, records) if records else Handled()
        failures = tuple(
            (open_.pop((record.topic, record.partition, record.offset)), error)
            for record, error in done.buried
        )
        settled = tuple(one.letter_id for one in open_.values())
        if settled:
            await self._database.ask(dead_letters.settle, tenant, settled)
        if failures:
            told = [(letter.letter_id, error) for letter, error in failures]
            await self._database.ask_once(dead_letters.fail, tenant, told)
        return Round(
            selected=selected,
            done=done,
            settled=settled,
            failures=failures,
            settled_before=tuple(one.letter_id for one in letters if one.settled),
        )

    async def _select(self, tenant: int, choice: Choice) -> Selected:
        if choice.ids is not None:
            asked = ids_in_turn(choice)
            found = await self._database.ask(dead_letters.weigh, tenant, asked[: choice.limit])
            return select_named(asked, choice.limit, found)
        meant = await self._listings.ask(
            dead_letters.upcoming, tenant, choice.filter, choice.after, choice.limit
        )
        taken = fitting(meant.items)
        is_cut = len(meant.items) == choice.limit or len(taken) < len(meant.items)
        reached = taken[-1] if is_cut else meant.looked_to
        if reached is None:
            return Selected(ids=taken, reached=taken[-1] if taken else choice.after, remaining=0)
        remaining = await self._listings.ask(
            dead_letters.count_upcoming, tenant, choice.filter, reached
        )
        return Selected(
            ids=taken,
            reached=reached,
            remaining=remaining,
            is_more=remaining > 0 or meant.looked_to is not None,
        )


def ids_in_turn(choice: Choice) -> list[int]:
    """The ids that are still to be tried, in order."""
    return sorted({one for one in choice.ids or () if one > choice.after})


def select_named(asked: Sequence[int], limit: int, found: Sequence[Weighed]) -> Selected:
    """The first of the asked letters; those that do not exist are told."""
    page = asked[:limit]
    taken = fitting(found)
    is_cut = len(taken) < len(found)
    reached = taken[-1] if is_cut else max(page, default=0)
    known = {one.letter_id for one in found}
    return Selected(
        ids=taken,
        reached=reached,
        remaining=(remaining := sum(one > reached for one in asked)),
        is_more=remaining > 0,
        unknown=tuple(one for one in page if one <= reached and one not in known),
    )


def fitting(found: Sequence[Weighed], budget: int = BUDGET) -> tuple[int, ...]:
    """As many of the first letters as may be held in memory at once; one in any case."""
    taken: list[int] = []
    weight = 0
    for one in found:
        weight += one.size
        if taken and weight > budget:
            break
        taken.append(one.letter_id)
    return tuple(taken)
