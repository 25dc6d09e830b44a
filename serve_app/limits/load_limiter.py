"""What one replica holds at once, of all callers and of each tenant: nobody has more than half.

Until a request has shown whose it is, it counts among those of nobody, who have half as well.
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
    """How much one tenant holds; or those who have not said whose they are."""

    __slots__ = ("answer_bytes", "body_bytes", "requests", "streams", "tenant")

    def __init__(self, tenant: int | None) -> None:
        self.tenant = tenant
        self.requests = 0
        self.streams = 0
        self.body_bytes = 0
        self.answer_bytes = 0


class LoadLimiter:
    """Counts what one replica holds, and says when it is enough."""

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
        """How many tenants hold something now."""
        return len(self._uses)

    def admit(self, *, urgent: bool = False) -> "RequestSlot":
        """Let one request in; one that is urgent always, and it takes no place from the others."""
        if not urgent and self.requests - self.urgent >= self._options.request_limit:
            raise _full(REQUESTS)
        use = TenantLoad(None) if urgent else self._nobody
        self._add_request(use)
        self.requests += 1
        self.urgent += urgent
        return RequestSlot(self, use, urgent=urgent)

    def assign_tenant(self, use: TenantLoad, tenant: int, reserved: int) -> TenantLoad:
        """Turn a request of nobody, with the bytes it holds, into one of a tenant."""
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
            OverloadedError: It did not come within `timeout_seconds`.
        """
        if use.tenant is None or time.monotonic() >= self._contested_until:
            return None
        return await self._large_bodies.begin(use.tenant, timeout_seconds)

    def count_as_stream(self, use: TenantLoad) -> None:
        """Turn one request into a stream."""
        if self.streams >= self._options.stream_limit:
            raise _full(STREAMS)
        if use.streams >= self._stream_share:
            raise _share(use, STREAMS)
        self.requests -= 1
        use.requests -= 1
        self.streams += 1
        use.streams += 1

    def reserve_body(self, use: TenantLoad, size: int) -> None:
        """Make room for `size` bytes of a body that have come."""
        if self.body_bytes + size > self._options.body_budget:
            raise _full(BODIES)
        if use.body_bytes + size > self._body_share:
            raise _share(use, BODIES)
        self.body_bytes += size
        use.body_bytes += size

    def reserve_response(self, use: TenantLoad, size: int, *, always: bool) -> None:
        """Make room for an answer until it is read.

        A tenant gets one in any case, however large it is. So does who must be told, `always`:
        what was stored is not answered with a refusal.
        """
        if not always:
            if self.answer_bytes and self.answer_bytes + size > self._options.answer_budget:
                raise _full(RESPONSES)
            if use.answer_bytes and use.answer_bytes + size > self._answer_share:
                raise _share(use, RESPONSES)
        self.answer_bytes += size
        use.answer_bytes += size

    def release_response(self, use: TenantLoad, size: int) -> None:
        """It is read, or nobody will."""
        self.answer_bytes -= size
        use.answer_bytes -= size

    def release(self, use: TenantLoad, reserved: int, *, lingers: bool, urgent: bool) -> None:
        """Take back what a request had."""
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
        """Else the map grows with the tenants there ever were."""
        if use.tenant is not None and not (use.requests or use.streams or use.body_bytes):
            self._uses.pop(use.tenant, None)


class RequestSlot:
    """One request's share of the gate."""

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
        """It is this tenant's: count it there from now on. A stream of nobody's stays that."""
        if self._use.tenant is None and not (self._urgent or self.lingers):
            self._use = self._gate.assign_tenant(self._use, tenant, self._body_bytes)

    async def begin_large_body(self, timeout_seconds: float) -> None:
        """Wait until it is this request's turn to work on a large body; it lasts until its end.

        Raises:
            OverloadedError: It did not come within `timeout_seconds`.
        """
        if self._turn is None:
            self._turn = await self._gate.begin_large_body(self._use, timeout_seconds)

    def count_as_stream(self) -> None:
        """This answer will be held open: count it among the streams."""
        if not self.lingers:
            self._gate.count_as_stream(self._use)
            self.lingers = True
            self._end_turn()

    def reserve_body(self, size: int) -> None:
        """Account for bytes of the body until the request is over."""
        self._gate.reserve_body(self._use, size)
        self._body_bytes += size

    def reserve_response(self, size: int, *, always: bool = False) -> None:
        """Account for an answer until the request is over, which is when it is read."""
        self._gate.reserve_response(self._use, size, always=always or self._urgent)
        self._answer += size

    def release(self) -> None:
        """Give everything back."""
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
