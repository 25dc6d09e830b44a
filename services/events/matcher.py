"""Finds the subscriptions that want an event, and creates a job for each."""

from collections.abc import Callable
from typing import Protocol

from core.dispatch.event_job import EventJob, job_of
from core.dispatch.subscription import Subscription, binding_matches
from core.events.event import Event
from core.shared.errors import InvalidError
from services.shared.time_slice import TimeSlice


class SubscriptionLookup(Protocol):
    """Finds subscriptions by event type."""

    async def matching(self, tenant: int, type_: str) -> tuple[Subscription, ...]:
        """Return those with a binding on the type; versions and filters are checked per event."""
        ...


class EventMatcher:
    """Creates the jobs of events, in order."""

    def __init__(
        self,
        subscriptions: SubscriptionLookup,
        wanted: Callable[[Subscription, Event], bool],
        new_id: Callable[[], str],
        max_jobs: int,
    ) -> None:
        self._subscriptions = subscriptions
        self._wanted = wanted
        self._new_id = new_id
        self._max_jobs = max_jobs

    async def match(self, events: list[Event]) -> tuple[list[EventJob], list[int]]:
        """Return all jobs, and how many each event has.

        Raises:
            InvalidError: Several events would make more jobs than fit into one transaction.
        """
        found: dict[tuple[int, str, str | None], list[Subscription]] = {}
        jobs: list[EventJob] = []
        counts: list[int] = []
        timeslice = TimeSlice()
        for event in events:
            key = (event.tenant, event.type, event.type_version)
            candidates = found.get(key)
            if candidates is None:
                candidates = found[key] = await self._candidates(event)
            before = len(jobs)
            for one in candidates:
                if one.filter is None or self._wanted(one, event):
                    jobs.append(job_of(event, one, self._new_id()))
                # Thousands of subscriptions may match an event, and each filter takes time.
                if timeslice.is_due:
                    await timeslice.take()
            counts.append(len(jobs) - before)
            if len(jobs) > self._max_jobs and len(events) > 1:
                expected = (
                    f"fewer events at once: these make more than {self._max_jobs} dispatch jobs"
                )
                raise InvalidError("body", expected, 413)
        return jobs, counts

    async def _candidates(self, event: Event) -> list[Subscription]:
        """Return the subscriptions that want this type and version."""
        return [
            one
            for one in await self._subscriptions.matching(event.tenant, event.type)
            if any(
                binding_matches(binding, event.type, event.type_version) for binding in one.bindings
            )
        ]
