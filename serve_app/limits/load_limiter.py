"""Limits on what one replica has in memory, for all callers and for each tenant.

No tenant gets more than half. Requests whose tenant is not known yet share one half as well.
"""

import time

from core.shared.errors import OverloadedError
from core.shared.tenant_share import CONTESTED_FOR
from serve_app.limits.large_bodies import LargeBodies, LargeBodyTurn
from settings.ingress import IngressOptions

REQUEST_SLOT = "muster.request_slot"
"""The key of a request's slot in its ASGI scope."""
_FULL = "this replica has {what} ({setting}); come again"
_SHARE = "{who} half of what this replica may have of {what} ({setting}); come again"
REQUESTS = ("enough requests under way", "requests under way", "MUSTER_REQUEST_LIMIT")
STREAMS = ("enough streams open", "open streams", "MUSTER_STREAM_LIMIT")
BODIES = ("enough request bodies in memory", "request bodies in memory", "MUSTER_BODY_BUDGET")
RESPONSES = ("enough answers in memory", "answers that are not read yet", "MUSTER_ANSWER_BUDGET")


class TenantLoad:
    """What one tenant occupies, or all requests whose tenant is not known yet."""

    __slots__ = ("answer_bytes", "body_bytes", "requests", "streams", "tenant")

    def __init__(self, tenant: int | None) -> None:
        self.tenant = tenant
        self.requests = 0
        self.streams = 0
        self.body_bytes = 0
        self.answer_bytes = 0


class LoadLimiter:
    """Counts what requests occupy on one replica, and refuses those over a limit."""

    def __init__(self, options: IngressOptions) -> None:
        self._options = options
        self._request_share = options.request_limit // 2
        self._stream_share = options.stream_limit // 2
        self._body_share = options.body_budget // 2
        self._answer_share = options.answer_budget // 2
        self._nobody = TenantLoad(None)
        self._last_tenant: int | None = None
        self._contested_until = float("-inf")
        self._large_bodies = LargeBodies()
        self._uses: dict[int, TenantLoad] = {}
        self.requests = 0
        self.urgent = 0
        self.streams = 0
        self.body_bytes = 0
        self.answer_bytes = 0

    @property
    def tenants(self) -> int:
        """Return how many tenants occupy something now."""
        return len(self._uses)

    def admit(self, *, urgent: bool = False) -> "RequestSlot":
        """Admit one request; an urgent one is always admitted and occupies no place."""
        if not urgent and self.requests - self.urgent >= self._options.request_limit:
            raise _full(REQUESTS)
        use = TenantLoad(None) if urgent else self._nobody
        self._add_request(use)
        self.requests += 1
        self.urgent += urgent
        return RequestSlot(self, use, urgent=urgent)

    def assign_tenant(self, use: TenantLoad, tenant: int, reserved: int) -> TenantLoad:
        """Count a request and its bytes for a tenant, now that the tenant is known."""
        if tenant != self._last_tenant:
            if self._last_tenant is not None:
                self._contested_until = time.monotonic() + CONTESTED_FOR
            self._last_tenant = tenant
        owner = self._uses.get(tenant)
        if owner is None:
            owner = self._uses[tenant] = TenantLoad(tenant)
        try:
            if reserved and owner.body_bytes + reserved > self._body_share:
                raise _share(owner, BODIES)
            self._add_request(owner)
        except OverloadedError:
            self._forget_idle(owner)
            raise
        owner.body_bytes += reserved
        use.body_bytes -= reserved
        use.requests -= 1
        return owner

    async def begin_large_body(
        self, use: TenantLoad, timeout_seconds: float
    ) -> LargeBodyTurn | None:
        """Wait for a turn to work on a large body; None if no turn is needed.

        Raises:
            OverloadedError: There was no turn within `timeout_seconds`.
        """
        if use.tenant is None or time.monotonic() >= self._contested_until:
            return None
        return await self._large_bodies.begin(use.tenant, timeout_seconds)

    def count_as_stream(self, use: TenantLoad) -> None:
        """Count a request as a stream."""
        if self.streams >= self._options.stream_limit:
            raise _full(STREAMS)
        if use.streams >= self._stream_share:
            raise _share(use, STREAMS)
        self.requests -= 1
        use.requests -= 1
        self.streams += 1
        use.streams += 1

    def reserve_body(self, use: TenantLoad, size: int) -> None:
        """Reserve room for `size` bytes of a body that have arrived."""
        if self.body_bytes + size > self._options.body_budget:
            raise _full(BODIES)
        if use.body_bytes + size > self._body_share:
            raise _share(use, BODIES)
        self.body_bytes += size
        use.body_bytes += size

    def reserve_response(self, use: TenantLoad, size: int, *, always: bool) -> None:
        """Reserve room for a response until the client has read it.

        The only response that counts against a limit is admitted whatever its size. `always`
        admits any response: a request that has stored something is not answered with an error.
        """
        if not always:
            if self.answer_bytes and self.answer_bytes + size > self._options.answer_budget:
                raise _full(RESPONSES)
            if use.answer_bytes and use.answer_bytes + size > self._answer_share:
                raise _share(use, RESPONSES)
        self.answer_bytes += size
        use.answer_bytes += size

    def release_response(self, use: TenantLoad, size: int) -> None:
        """Free the room of a response that was read or given up."""
        self.answer_bytes -= size
        use.answer_bytes -= size

    def release(self, use: TenantLoad, reserved: int, *, lingers: bool, urgent: bool) -> None:
        """Free what a request occupied."""
        self.body_bytes -= reserved
        self.urgent -= urgent
        use.body_bytes -= reserved
        if lingers:
            self.streams -= 1
            use.streams -= 1
        else:
            self.requests -= 1
            use.requests -= 1
        self._forget_idle(use)

    def _add_request(self, use: TenantLoad) -> None:
        if use.requests >= self._request_share:
            raise _share(use, REQUESTS)
        use.requests += 1

    def _forget_idle(self, use: TenantLoad) -> None:
        """Remove a tenant that occupies nothing, so that the map does not grow for ever."""
        if use.tenant is not None and not (use.requests or use.streams or use.body_bytes):
            self._uses.pop(use.tenant, None)


class RequestSlot:
    """What one request occupies."""

    __slots__ = ("_answer", "_body_bytes", "_gate", "_turn", "_urgent", "_use", "lingers")

    def __init__(self, gate: LoadLimiter, use: TenantLoad, *, urgent: bool = False) -> None:
        self._gate = gate
        self._use = use
        self._body_bytes = 0
        self._answer = 0
        self._urgent = urgent
        self._turn: LargeBodyTurn | None = None
        self.lingers = False

    def assign_tenant(self, tenant: int) -> None:
        """Count the request for a tenant, unless it is urgent or a stream already."""
        if self._use.tenant is None and not (self._urgent or self.lingers):
            self._use = self._gate.assign_tenant(self._use, tenant, self._body_bytes)

    async def begin_large_body(self, timeout_seconds: float) -> None:
        """Wait for a turn to work on a large body; the turn ends with the request.

        Raises:
            OverloadedError: There was no turn within `timeout_seconds`.
        """
        if self._turn is None:
            self._turn = await self._gate.begin_large_body(self._use, timeout_seconds)

    def count_as_stream(self) -> None:
        """Count the request as a stream, because its response stays open."""
        if not self.lingers:
            self._gate.count_as_stream(self._use)
            self.lingers = True
            self._end_turn()

    def reserve_body(self, size: int) -> None:
        """Account for bytes of the body until the request ends."""
        self._gate.reserve_body(self._use, size)
        self._body_bytes += size

    def reserve_response(self, size: int, *, always: bool = False) -> None:
        """Account for a response until the request ends, which is when the client has read it."""
        self._gate.reserve_response(self._use, size, always=always or self._urgent)
        self._answer += size

    def release(self) -> None:
        """Free everything that the request occupied."""
        self._end_turn()
        if self._answer:
            self._gate.release_response(self._use, self._answer)
        self._gate.release(self._use, self._body_bytes, lingers=self.lingers, urgent=self._urgent)

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.end()


def _full(bound: tuple[str, str, str]) -> OverloadedError:
    what, _, setting = bound
    return OverloadedError(_FULL.format(what=what, setting=setting))


def _share(use: TenantLoad, bound: tuple[str, str, str]) -> OverloadedError:
    _, what, setting = bound
    who = "requests without a key have" if use.tenant is None else "your tenant has"
    return OverloadedError(_SHARE.format(who=who, what=what, setting=setting))
