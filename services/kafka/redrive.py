"""Redrive of dead letters by the code that ingests Kafka messages.

A dead letter is marked as redriven after its event is in Postgres. A crash in between leaves it
open; redriven once more, it is recognised by its position in its topic and changes nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.shared.errors import UnavailableError
from services.kafka.ingest import Ingest, IngestDeps, IngestResult
from services.shared.database import Database
from services.shared.listings import Listings
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetter, DeadLetterFilter, DeadLetterSize

# Messages may be as large as brokers allow, so a round is bounded in bytes as well as in number.
MAX_DEAD_LETTERS = 500
MAX_ROUND_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveSelection:
    """The dead letters to redrive: these ids or the open ones of a filter, after an id."""

    ids: tuple[int, ...] | None = None
    filter: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    after: int = 0
    limit: int = MAX_DEAD_LETTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveBatch:
    """The dead letters of one round, the last id that it reaches, and how many remain."""

    ids: tuple[int, ...]
    reached: int
    remaining: int
    is_more: bool = False
    """Another round may find more beyond what this one scanned."""
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRound:
    """The result of one round."""

    selected: RedriveBatch
    done: IngestResult
    settled: tuple[int, ...]
    failures: tuple[tuple[DeadLetter, str], ...]
    """Dead letters that failed again, with the new error."""
    settled_before: tuple[int, ...] = ()


class Redrive:
    """Redrives dead letters, a bounded round at a time."""

    def __init__(
        self,
        deps: IngestDeps,
        database: Database,
        listings: Listings,
        max_bytes: int,
        timeout_seconds: float,
    ) -> None:
        self._ingest = Ingest(deps, max_bytes)
        self._database = database
        self._listings = listings
        self._timeout = timeout_seconds

    async def run(self, tenant: int, choice: RedriveSelection) -> RedriveRound:
        """Redrive one round.

        Raises:
            UnavailableError: It took too long. Messages that were handled meanwhile stay handled.
        """
        try:
            async with asyncio.timeout(self._timeout):
                selected = await self._select(tenant, choice)
                return await self._try(tenant, selected)
        except TimeoutError:
            detail = "the dead letters were not handled in time; redrive the remaining ones again"
            raise UnavailableError(detail, 2) from None

    async def _try(self, tenant: int, selected: RedriveBatch) -> RedriveRound:
        letters = await self._database.query(dead_letters.read, tenant, selected.ids)
        open_ = {(one.topic, one.partition, one.offset): one for one in letters if not one.settled}
        messages = [one.message for one in open_.values() if one.message is not None]
        done = await self._ingest.handle(tenant, messages) if messages else IngestResult()
        failures = tuple(
            (open_.pop((message.topic, message.partition, message.offset)), error)
            for message, error in done.dead_letters
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
        upcoming = await self._listings.query(
            dead_letters.upcoming, tenant, choice.filter, choice.after, choice.limit
        )
        taken = ids_within_budget(upcoming.items)
        is_cut = len(upcoming.items) == choice.limit or len(taken) < len(upcoming.items)
        reached = taken[-1] if is_cut else upcoming.scanned_to
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
            is_more=remaining > 0 or upcoming.scanned_to is not None,
        )


def remaining_ids(choice: RedriveSelection) -> list[int]:
    """List the ids that are still to be redriven, in order."""
    return sorted({one for one in choice.ids or () if one > choice.after})


def select_named(
    requested: Sequence[int], limit: int, found: Sequence[DeadLetterSize]
) -> RedriveBatch:
    """Select the first of the requested dead letters, and name those that do not exist."""
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
    """Take as many of the first dead letters as fit into the memory budget, at least one."""
    taken: list[int] = []
    weight = 0
    for one in found:
        weight += one.size
        if taken and weight > budget:
            break
        taken.append(one.letter_id)
    return tuple(taken)
