"""Pauses subscriptions that have failed for too long or whose target is gone.

Postgres stores since when a subscription fails. It is written when failures begin and end, not with
each delivery.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import structlog

from core.dispatch.attempt import DeliveryAttempt
from core.dispatch.claim import ClaimedJob

log = structlog.get_logger("dispatch")

SubscriptionRef: TypeAlias = tuple[int, str]
MAX_SUBSCRIPTIONS = 10_000
# A rarely used subscription is not judged by two failures far apart.
MIN_FAILURES = 10
GONE = 410
"""The HTTP status of a receiver that never wants another delivery."""


@dataclass(eq=False, repr=False)
class SubscriptionHealthMonitor:
    """Records every delivery; queries Postgres only when the health of a subscription changes."""

    _mark_failing: Callable[[list[SubscriptionRef]], Awaitable[Mapping[Any, float]]]
    _mark_well: Callable[[list[SubscriptionRef]], Awaitable[None]]
    _disable: Callable[[SubscriptionRef, str, int | None], Awaitable[None]]
    _now: Callable[[], float]
    _disable_after: float
    # Since when each subscription fails; None if it does not.
    _since: dict[SubscriptionRef, float | None] = field(default_factory=dict)
    _failures: dict[SubscriptionRef, int] = field(default_factory=dict)
    _todo: dict[SubscriptionRef, bool] = field(default_factory=dict)
    # Subscriptions whose target answered 410, with the version that was in force.
    _gone: dict[SubscriptionRef, int] = field(default_factory=dict)
    _wakes: asyncio.Event = field(default_factory=asyncio.Event)

    def record_delivery(self, job: ClaimedJob, sent: DeliveryAttempt | None) -> None:
        """Record one delivery; a response that asks to wait counts neither way."""
        if job.subscription_id is None or sent is None or sent.delay is not None:
            return
        key = (job.tenant, job.subscription_id)
        is_well = sent.error_type is None
        self._failures[key] = 0 if is_well else self._failures.get(key, 0) + 1
        if sent.code == GONE and job.subscription_version is not None:
            self._gone[key] = job.subscription_version
            self._todo[key] = False
            self._wakes.set()
            return
        known = self._since.get(key, 0.0)
        if is_well and known is None:
            return  # no change
        if not is_well and known and self._now() - known < self._disable_after:
            return  # still failing, but not for too long
        self._todo[key] = is_well
        self._wakes.set()

    async def run_forever(self) -> None:
        while True:
            await self._wakes.wait()
            self._wakes.clear()
            todo, self._todo = self._todo, {}
            for key, is_well in todo.items():
                try:
                    await self._note(key, is_well=is_well)
                except Exception:  # the next delivery records it again
                    log.exception("dispatch.health_not_stored", subscription=key[1])
                    await asyncio.sleep(1.0)

    async def _note(self, key: SubscriptionRef, *, is_well: bool) -> None:
        if len(self._since) > MAX_SUBSCRIPTIONS:
            self._since.clear()
            self._failures.clear()
        gone = self._gone.pop(key, None)
        if is_well:
            await self._mark_well([key])
            self._since[key] = None
            return
        failing = (await self._mark_failing([key])).get(key)
        if failing is None:  # the subscription was removed
            self._since.pop(key, None)
            return
        self._since[key] = self._now() - failing
        too_long = failing >= self._disable_after and self._failures.get(key, 0) >= MIN_FAILURES
        if gone is not None or too_long:
            log.warning("dispatch.subscription_disabled", tenant=key[0], subscription=key[1])
            reason = f"every delivery has failed for {failing / 3600:.1f} hours"
            if gone is not None:
                reason = "its target answered HTTP 410 (Gone)"
            await self._disable(key, reason, gone)
            self._since.pop(key, None)
