"""The targets of a pool: the deliveries under way and the circuit breaker of each.

A target is a server, regardless of paths. In a pool that tenants share, a tenant may use at most as
many slots as are still free, so that deliveries that hang until their time-out leave room for other
tenants.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from core.dispatch.attempt import AttemptStatus, DeliveryAttempt
from core.dispatch.breaker import Breaker, BreakerState
from core.dispatch.target import TargetKey, origin_of

# Targets that have been unused for this many seconds are forgotten.
FORGET_AFTER = 3_600.0
MAX_TARGETS = 10_000


class _Target:
    __slots__ = ("breaker", "under_way")

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.under_way = 0


class Targets:
    """Decides whether a target may get another delivery."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._targets: dict[TargetKey, _Target] = {}
        self.shared_places: int | None = None
        """The number of slots that tenants share; None if the pool belongs to one tenant."""
        self._under_way: Counter[int] = Counter()
        self._total = 0
        # Targets whose tenant has used up its share of the slots.
        self._waiting: dict[int, dict[TargetKey, None]] = {}
        # When targets with an open breaker may be tried again.
        self._closed_until: dict[TargetKey, float] = {}

    def allows(self, target_key: TargetKey) -> bool:
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
        """Count the start of a delivery; return a ticket for `end`."""
        target = self._targets.get(target_key)
        if target is None:
            target = self._targets[target_key] = _Target()
        target.under_way += 1
        self._under_way[target_key[0]] += 1
        self._total += 1
        return target.breaker.begin_attempt(self._monotonic())

    def end(self, target_key: TargetKey, ticket: int, sent: DeliveryAttempt | None) -> bool:
        """Count the end of a delivery, made or not; return whether the breaker opened."""
        target = self._targets[target_key]
        target.under_way -= 1
        self._under_way[target_key[0]] -= 1
        self._total -= 1
        if not self._under_way[target_key[0]]:
            del self._under_way[target_key[0]]
        breaker = target.breaker
        if sent is not None and sent.is_refusal and breaker.state is BreakerState.HALF_OPEN:
            breaker.record(True, self._monotonic(), ticket)  # the target answers again
            return False
        if sent is None or not (sent.counts_as_failure or sent.status is AttemptStatus.SUCCESS):
            breaker.release(ticket)  # a target that refuses or asks to wait is reachable
            return False
        was_open = breaker.state is BreakerState.OPEN
        breaker.record(not sent.counts_as_failure, self._monotonic(), ticket)
        return breaker.state is BreakerState.OPEN and not was_open

    def is_open(self, target_key: TargetKey) -> bool:
        target = self._targets.get(target_key)
        return target is not None and target.breaker.state is BreakerState.OPEN

    def is_breaker_tripped(self, target_key: TargetKey) -> bool:
        """Return whether this target failed too often and has not succeeded since."""
        target = self._targets.get(target_key)
        return target is not None and target.breaker.state is not BreakerState.CLOSED

    def reopened(self) -> list[TargetKey]:
        now = self._monotonic()
        over = [target_key for target_key, until in self._closed_until.items() if until <= now]
        for target_key in over:
            del self._closed_until[target_key]
        return over

    def next_in_turn(self) -> TargetKey | None:
        """Take a target that waited for its tenant's share, if the tenant has room now."""
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
        own = self._under_way[tenant]
        return own == 0 or own < self.shared_places - self._total

    @property
    def next_opening(self) -> float | None:
        """Return when the next open breaker allows an attempt."""
        return min(self._closed_until.values(), default=None)

    def reset(self, tenant: int, target: str | None) -> list[TargetKey]:
        """Close the breakers of a tenant, or the one of the server in the URL `target`."""
        origin = None if target is None else origin_of(target)
        chosen = [s for s in self._targets if s[0] == tenant and origin in (None, s[1])]
        for target_key in chosen:
            self._targets[target_key].breaker.reset()
            self._closed_until.pop(target_key, None)
        return chosen

    def forget_idle(self) -> None:
        """Forget unused targets; if there are too many, all idle ones with a closed breaker."""
        long_ago = self._monotonic() - FORGET_AFTER
        crowded = len(self._targets) > MAX_TARGETS
        for target_key, target in list(self._targets.items()):
            is_well = target.breaker.state is BreakerState.CLOSED
            is_over = target.breaker.used_at < long_ago or (crowded and is_well)
            if is_over and target.under_way == 0:
                del self._targets[target_key]

    def states(self) -> dict[str, int]:
        counts = {state.value.lower(): 0 for state in BreakerState}
        for target in self._targets.values():
            counts[target.breaker.state.value.lower()] += 1
        return counts

    def snapshot(self, tenant: int) -> list[dict[str, Any]]:
        """Describe a tenant's targets; `open_for` is how many seconds a breaker stays open."""
        now = self._monotonic()
        rows = []
        for (owner, url), target in self._targets.items():
            if owner == tenant:
                breaker = target.breaker.snapshot()
                until = breaker.pop("open_until")
                breaker["open_for"] = max(0.0, until - now) if until is not None else 0.0
                rows.append({"target": url, "under_way": target.under_way, **breaker})
        return rows
