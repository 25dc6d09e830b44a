"""The targets of a pool: how many deliveries each has, and whether it is to be left alone.

A target is a server, whatever its paths. In a pool that tenants share, each may have as many places
as are free, so that one has half of them at most and there is always room for the next: what hangs
holds its own until its time-out, and others have to get through meanwhile.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from core.dispatch.attempt import AttemptStatus, DeliveryAttempt
from core.dispatch.breaker import Breaker, BreakerState
from core.dispatch.target import TargetKey, origin_of

# Targets that nobody used for so long are forgotten.
FORGET_AFTER = 3_600.0
MAX_TARGETS = 10_000


class _Target:
    """One target."""

    __slots__ = ("breaker", "under_way")

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.under_way = 0


class Targets:
    """Says whether a target takes one more."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._targets: dict[TargetKey, _Target] = {}
        self.shared_places: int | None = None
        """The places that tenants share; None: they are one tenant's."""
        self._under_way: Counter[int] = Counter()
        self._total = 0
        # Targets whose tenant has its share under way.
        self._waiting: dict[int, dict[TargetKey, None]] = {}
        # When to ask again of targets that are left alone.
        self._closed_until: dict[TargetKey, float] = {}

    def allows(self, target_key: TargetKey) -> bool:
        """Whether this target takes one more now."""
        if not self._has_share(target_key[0]):
            self._waiting.setdefault(target_key[0], {})[target_key] = None
            return False
        target = self._targets.get(target_key)
        if target is None:
            return True
        if target.under_way >= self._limit:
            return False
        now = self._monotonic()
        if target.breaker.allows(now):
            return True
        until = target.breaker.opens_at(now)
        if until is not None:
            self._closed_until[target_key] = until
        return False

    def begin(self, target_key: TargetKey) -> int:
        """One delivery begins; what it gets here it hands back at its end."""
        target = self._targets.get(target_key)
        if target is None:
            target = self._targets[target_key] = _Target()
        target.under_way += 1
        self._under_way[target_key[0]] += 1
        self._total += 1
        return target.breaker.begin_attempt(self._monotonic())

    def end(self, target_key: TargetKey, ticket: int, sent: DeliveryAttempt | None) -> bool:
        """It ended, or never was made; whether the target is left alone because of it."""
        target = self._targets[target_key]
        target.under_way -= 1
        self._under_way[target_key[0]] -= 1
        self._total -= 1
        if not self._under_way[target_key[0]]:
            del self._under_way[target_key[0]]
        breaker = target.breaker
        if sent is not None and sent.is_refusal and breaker.state is BreakerState.HALF_OPEN:
            breaker.record(True, self._monotonic(), ticket)  # it is back, whatever it says
            return False
        if sent is None or not (sent.counts_as_failure or sent.status is AttemptStatus.SUCCESS):
            breaker.release(ticket)  # a receiver that asks for patience, or refuses, is there
            return False
        was_open = breaker.state is BreakerState.OPEN
        breaker.record(not sent.counts_as_failure, self._monotonic(), ticket)
        return breaker.state is BreakerState.OPEN and not was_open

    def is_open(self, target_key: TargetKey) -> bool:
        """Whether it gets nothing: a delivery that tries it again would have changed that."""
        target = self._targets.get(target_key)
        return target is not None and target.breaker.state is BreakerState.OPEN

    def is_breaker_tripped(self, target_key: TargetKey) -> bool:
        """Whether it failed too often, and has not been seen well since."""
        target = self._targets.get(target_key)
        return target is not None and target.breaker.state is not BreakerState.CLOSED

    def reopened(self) -> list[TargetKey]:
        """Targets that may be tried again."""
        now = self._monotonic()
        over = [target_key for target_key, until in self._closed_until.items() if until <= now]
        for target_key in over:
            del self._closed_until[target_key]
        return over

    def next_in_turn(self) -> TargetKey | None:
        """A target that waited for its tenant's share, of a tenant that has room now."""
        for tenant, waiting in self._waiting.items():
            if self._has_share(tenant):
                target_key = next(iter(waiting))
                del waiting[target_key]
                if not waiting:
                    del self._waiting[tenant]
                return target_key
        return None

    def _has_share(self, tenant: int) -> bool:
        if self.shared_places is None:
            return True
        held = self._under_way[tenant]
        return held == 0 or held < self.shared_places - self._total

    @property
    def next_opening(self) -> float | None:
        """When the next of them may be."""
        return min(self._closed_until.values(), default=None)

    def reset(self, tenant: int, target: str | None) -> list[TargetKey]:
        """Close the breakers of a tenant, or that of the server that an address leads to."""
        origin = None if target is None else origin_of(target)
        chosen = [s for s in self._targets if s[0] == tenant and origin in (None, s[1])]
        for target_key in chosen:
            self._targets[target_key].breaker.reset()
            self._closed_until.pop(target_key, None)
        return chosen

    def forget_idle(self) -> None:
        """Let go of targets that nobody uses; of many at once only those that are well."""
        long_ago = self._monotonic() - FORGET_AFTER
        crowded = len(self._targets) > MAX_TARGETS
        for target_key, target in list(self._targets.items()):
            is_well = target.breaker.state is BreakerState.CLOSED
            is_over = target.breaker.used_at < long_ago or (crowded and is_well)
            if is_over and target.under_way == 0:
                del self._targets[target_key]

    def states(self) -> dict[str, int]:
        """How many breakers there are in each state."""
        counts = {state.value.lower(): 0 for state in BreakerState}
        for target in self._targets.values():
            counts[target.breaker.state.value.lower()] += 1
        return counts

    def snapshot(self, tenant: int) -> list[dict[str, Any]]:
        """How a tenant's targets fare. Of those that are left alone: for how many seconds more."""
        now = self._monotonic()
        rows = []
        for (owner, url), target in self._targets.items():
            if owner == tenant:
                told = target.breaker.snapshot()
                until = told.pop("open_until")
                told["open_for"] = max(0.0, until - now) if until is not None else 0.0
                rows.append({"target": url, "under_way": target.under_way, **told})
        return rows
