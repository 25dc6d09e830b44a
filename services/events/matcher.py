"""Finds the subscriptions that want an event, and creates a job for each."""

from collections.abc import Callable
from dataclasses import dataclass

from core.dispatch.event_job import EventJob, job_of
from core.dispatch.subscription import Subscription, binding_matches
from core.events.event import Event
from core.shared.errors import InvalidError
from services.events.subscription_cache import SubscriptionCache
from services.shared.time_slice import TimeSlice


@dataclass(eq=False, repr=False)
class EventMatcher:
    """Creates the jobs of events, in order."""

    _subscriptions: SubscriptionCache
    _wanted: Callable[[Subscription, Event], bool]
    _new_id: Callable[[], str]
    _max_jobs: int

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
                too_many = f"these make more than {self._max_jobs} dispatch jobs"
                raise InvalidError("body", f"fewer events at once: {too_many}", 413)
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
