"""Who wants an event: a job for each."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from core.dispatch.event_job import EventJob, job_of
from core.errors import InvalidError
from core.event import Event
from core.subscription import Subscription, takes

# Jobs between two looks at what else there is to do.
AT_A_TIME = 2_000


class Wishes(Protocol):
    """Who wants what."""

    async def matching(self, tenant: int, type_: str) -> tuple[Subscription, ...]:
        """Those with a binding on the type: versions and filters are for each event."""
        ...


class Matcher:
    """Makes jobs of events, in order."""

    def __init__(
        self,
        wishes: Wishes,
        wanted: Callable[[Subscription, Event], bool],
        new_id: Callable[[], str],
        most: int,
    ) -> None:
        self._wishes = wishes
        self._wanted = wanted
        self._new_id = new_id
        self._most = most

    async def match(self, events: list[Event]) -> tuple[list[EventJob], list[int]]:
        """All jobs, and how many each event has.

        Raises:
            InvalidError: Several events would make more jobs than fit into one transaction.
        """
        found: dict[tuple[int, str, str | None], list[Subscription]] = {}
        jobs: list[EventJob] = []
        counts: list[int] = []
        pause = AT_A_TIME
        for event in events:
            key = (event.tenant, event.type, event.type_version)
            candidates = found.get(key)
            if candidates is None:
                candidates = found[key] = await self._candidates(event)
            before = len(jobs)
            jobs += [
                job_of(event, one, self._new_id())
                for one in candidates
                if one.filter is None or self._wanted(one, event)
            ]
            counts.append(len(jobs) - before)
            if len(jobs) > pause:
                self._refuse_too_many(len(jobs), len(events))
                pause = len(jobs) + AT_A_TIME
                await asyncio.sleep(0)
        self._refuse_too_many(len(jobs), len(events))
        return jobs, counts

    async def _candidates(self, event: Event) -> list[Subscription]:
        """Those that want this type in this version."""
        return [
            one
            for one in await self._wishes.matching(event.tenant, event.type)
            if any(takes(binding, event.type, event.type_version) for binding in one.bindings)
        ]

    def _refuse_too_many(self, jobs: int, events: int) -> None:
        if jobs > self._most and events > 1:
            expected = f"fewer events at once: these make more than {self._most} dispatch jobs"
            raise InvalidError("body", expected, 413)
