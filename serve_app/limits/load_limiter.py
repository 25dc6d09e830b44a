"""Limits on what one replica has in memory, for all callers and for each tenant.

No tenant gets more than half. Requests whose tenant is not known yet share one half as well.
"""

import time
from dataclasses import dataclass

from core.shared.errors import OverloadedError
from core.shared.tenant_share import CONTESTED_FOR
from serve_app.limits.large_bodies import LargeBodies, LargeBodyTurn
from settings.ingress import IngressOptions

REQUEST_SLOT = "muster.request_slot"
"""The key of a request's slot in its ASGI scope."""
_FULL = "this replica has {what} ({setting}); try again"
_SHARE = "{who} half of what this replica may have of {what} ({setting}); try again"
REQUESTS = ("enough requests under way", "requests under way", "MUSTER_REQUEST_LIMIT")
STREAMS = ("enough streams open", "open streams", "MUSTER_STREAM_LIMIT")
BODIES = ("enough request bodies in memory", "request bodies in memory", "MUSTER_BODY_BUDGET")
RESPONSES = ("enough answers in memory", "answers that are not read yet", "MUSTER_ANSWER_BUDGET")


@dataclass(slots=True, eq=False)
class TenantLoad:
    """What one tenant occupies, or all requests whose tenant is not known yet."""

    tenant: int | None
    requests: int = 0
    streams: int = 0
    body_bytes: int = 0
    answer_bytes: int = 0

    def add_request(self, share: int) -> None:
        if self.requests >= share:
            raise _share(self, REQUESTS)
        self.requests += 1


class LoadLimiter:
    """Counts what requests occupy on one replica, and refuses those over a limit."""

    def __init__(self, options: IngressOptions) -> None:
        self.options = options
        self.large_bodies = LargeBodies()
        self._unknown = TenantLoad(None)
        self._loads: dict[int, TenantLoad] = {}
        self._last_tenant: int | None = None
        self._contested_until = float("-inf")
        self.requests = 0
        self.urgent = 0
        self.streams = 0
        self.body_bytes = 0
        self.answer_bytes = 0

    @property
    def tenants(self) -> int:
        """Return how many tenants occupy something now."""
        return len(self._loads)

    @property
    def is_contested(self) -> bool:
        """Return whether requests of several tenants came lately."""
        return time.monotonic() < self._contested_until

    def admit(self, *, urgent: bool = False) -> "RequestSlot":
        """Admit one request; an urgent one is always admitted and occupies no place."""
        if not urgent and self.requests - self.urgent >= self.options.request_limit:
            raise _full(REQUESTS)
        load = TenantLoad(None) if urgent else self._unknown
        load.add_request(self.options.request_limit // 2)
        self.requests += 1
        self.urgent += urgent
        return RequestSlot(self, load, urgent=urgent)

    def load_of(self, tenant: int) -> TenantLoad:
        if tenant != self._last_tenant:
            if self._last_tenant is not None:
                self._contested_until = time.monotonic() + CONTESTED_FOR
            self._last_tenant = tenant
        load = self._loads.get(tenant)
        if load is None:
            load = self._loads[tenant] = TenantLoad(tenant)
        return load

    def forget_idle(self, load: TenantLoad) -> None:
        """Remove a tenant that occupies nothing, so that the map does not grow for ever."""
        if load.tenant is not None and not (load.requests or load.streams or load.body_bytes):
            self._loads.pop(load.tenant, None)


class RequestSlot:
    """What one request occupies of the replica and of its tenant's half."""

    __slots__ = ("_answer_bytes", "_body_bytes", "_limiter", "_load", "_turn", "_urgent", "lingers")

    def __init__(self, limiter: LoadLimiter, load: TenantLoad, *, urgent: bool = False) -> None:
        self._limiter = limiter
        self._load = load
        self._body_bytes = 0
        self._answer_bytes = 0
        self._urgent = urgent
        self._turn: LargeBodyTurn | None = None
        self.lingers = False

    def assign_tenant(self, tenant: int) -> None:
        """Count the request for a tenant, unless it is urgent or a stream already."""
        if self._load.tenant is not None or self._urgent or self.lingers:
            return
        before, load, size = self._load, self._limiter.load_of(tenant), self._body_bytes
        options = self._limiter.options
        try:
            if size and load.body_bytes + size > options.body_budget // 2:
                raise _share(load, BODIES)
            load.add_request(options.request_limit // 2)
        except OverloadedError:
            self._limiter.forget_idle(load)
            raise
        load.body_bytes += size
        before.body_bytes -= size
        before.requests -= 1
        self._load = load

    async def begin_large_body(self, timeout_seconds: float) -> None:
        """Wait for a turn to work on a large body, if tenants compete; it ends with the request."""
        limiter, tenant = self._limiter, self._load.tenant
        if self._turn is None and tenant is not None and limiter.is_contested:
            self._turn = await limiter.large_bodies.begin(tenant, timeout_seconds)

    def count_as_stream(self) -> None:
        """Count the request as a stream, because its response stays open."""
        if self.lingers:
            return
        limiter, load = self._limiter, self._load
        if limiter.streams >= limiter.options.stream_limit:
            raise _full(STREAMS)
        if load.streams >= limiter.options.stream_limit // 2:
            raise _share(load, STREAMS)
        limiter.requests -= 1
        load.requests -= 1
        limiter.streams += 1
        load.streams += 1
        self.lingers = True
        self._end_turn()

    def reserve_body(self, size: int) -> None:
        """Account for bytes of the body that have arrived, until the request ends."""
        limiter, load, budget = self._limiter, self._load, self._limiter.options.body_budget
        if limiter.body_bytes + size > budget:
            raise _full(BODIES)
        if load.body_bytes + size > budget // 2:
            raise _share(load, BODIES)
        limiter.body_bytes += size
        load.body_bytes += size
        self._body_bytes += size

    def reserve_response(self, size: int, *, always: bool = False) -> None:
        """Account for a response until the request ends, which is when the client has read it.

        The only response that counts against a limit is admitted whatever its size. `always`
        admits any response: a request that has stored something is not answered with an error.
        """
        limiter, load, budget = self._limiter, self._load, self._limiter.options.answer_budget
        if not (always or self._urgent):
            if limiter.answer_bytes and limiter.answer_bytes + size > budget:
                raise _full(RESPONSES)
            if load.answer_bytes and load.answer_bytes + size > budget // 2:
                raise _share(load, RESPONSES)
        limiter.answer_bytes += size
        load.answer_bytes += size
        self._answer_bytes += size

    def release(self) -> None:
        self._end_turn()
        limiter, load = self._limiter, self._load
        for counts in (limiter, load):
            counts.answer_bytes -= self._answer_bytes
            counts.body_bytes -= self._body_bytes
            if self.lingers:
                counts.streams -= 1
            else:
                counts.requests -= 1
        limiter.urgent -= self._urgent
        limiter.forget_idle(load)

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.end()


def _full(bound: tuple[str, str, str]) -> OverloadedError:
    what, _, setting = bound
    return OverloadedError(_FULL.format(what=what, setting=setting))


def _share(load: TenantLoad, bound: tuple[str, str, str]) -> OverloadedError:
    _, what, setting = bound
    who = "requests without a key have" if load.tenant is None else "your tenant has"
    return OverloadedError(_SHARE.format(who=who, what=what, setting=setting))
