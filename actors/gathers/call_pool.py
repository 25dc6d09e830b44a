"""Calls resources, and sends the results to the correlations that wait for them.

A call is identified by its gather and its resource, so that a repeated request makes one call.
Calls are stored in Postgres: after a restart, a pool reads there which are still open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import structlog

from actors.gathers.admission import CallBudget, CallPoolLimits, ConcurrencyLimiter, Reservation
from actors.gathers.resource_limiter import ResourceLimiter
from actors.runtime.actor import ActorEnvironment
from core.dispatch.headers import merge_headers
from core.gathers import gather
from core.gathers.gather import CallBatch, GatherCall, ReplyBy
from core.shared.call_outcome import CallState
from core.shared.errors import TransientError
from core.shared.json_path import MISSING, document_of
from core.shared.media_types import JSON
from core.waits.messages import Accept, Offer, Reply, WaitMessage
from core.waits.spec import Source
from core.waits.strategy import Outcome
from handlers.http.client import HttpFailure, HttpRequest, HttpResponse
from services.shared.retry import Pauses, retrying
from telemetry.actor_metrics import ActorMetrics, Stat
from telemetry.logging import about

log = structlog.get_logger("pool")

MAX_RESOURCES = 10_000
_OUTCOMES = {
    CallState.REJECTED: Outcome.REJECTED,
    CallState.TIMEOUT: Outcome.TIMED_OUT,
    CallState.CONNECTION_CLOSED: Outcome.FAILED,
    CallState.ERROR: Outcome.FAILED,
}


CALL_METRICS = ActorMetrics(
    kind="pool",
    labels=("pool",),
    gauges=(Stat("calls_under_way", "Calls that a pool is making.", "under_way"),),
)


class CallPool:
    """Makes calls concurrently within its limits."""

    def __init__(
        self,
        call: Callable[[HttpRequest], Awaitable[HttpResponse | HttpFailure]],
        send: Callable[[WaitMessage], Awaitable[Reply]],
        environment: ActorEnvironment,
        bounds: CallPoolLimits,
    ) -> None:
        self._call = call
        self._send = send
        self._environment = environment
        self._budget = CallBudget(bounds)
        self._places = ConcurrencyLimiter(bounds)
        # Keyed by tenant, name and whether the resource came with a request: there may be many of
        # those under one name, and they are unrelated to the registered resource.
        self._limiters: dict[tuple[int, str, bool], ResourceLimiter] = {}
        self._running: dict[tuple[bytes, str], asyncio.Task[None]] = {}
        # Until when a finished call must not be started again.
        self._done: dict[tuple[bytes, str], float] = {}
        # Gathers that were cancelled since the last scan began.
        self._cancelled: set[bytes] = set()

    def begin(self, call_batch: CallBatch) -> list["asyncio.Future[CallState]"] | None:
        """Start the calls that are new; return the future of each resource's first answer.

        Return None, and start no call, if there is no room for all of them.
        """
        new = {
            call.call_key: call for call in call_batch.calls if not self.is_known(*call.call_key)
        }
        if not new:
            return []
        calls = tuple(new.values())
        reservation = self._budget.reserve(
            calls[0].address.tenant, CallBatch(calls, call_batch.context)
        )
        if reservation is None:
            return None
        answered: list[asyncio.Future[CallState]] = []
        for call in calls:
            first: asyncio.Future[CallState] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._make(call, call_batch.context, first))
            self._running[call.call_key] = task
            task.add_done_callback(partial(self._over, call, reservation, first))
            answered.append(first)
        return answered

    def has_room(self, tenant: int) -> bool:
        return self._budget.has_capacity(tenant)

    def cancel_calls(self, gathers: Iterable[bytes]) -> int:
        wanted = set(gathers)
        self._cancelled |= wanted
        tasks = [task for (key, _), task in self._running.items() if key in wanted]
        for task in tasks:
            task.cancel()
        return len(tasks)

    def is_known(self, key: bytes, name: str) -> bool:
        """Return whether this call was started here or must not be started any more."""
        return (key, name) in self._running or (key, name) in self._done or key in self._cancelled

    def forget(self) -> None:
        """Forget calls that can no longer be repeated, and idle resources if there are many."""
        now = self._environment.now()
        self._cancelled.clear()
        self._done = {place: until for place, until in self._done.items() if until > now}
        if len(self._limiters) > MAX_RESOURCES:
            idle = sorted(self._limiters, key=lambda k: self._limiters[k].last_used)
            for key in [k for k in idle if self._limiters[k].is_idle][: len(idle) // 2]:
                del self._limiters[key]

    def snapshot(self) -> dict[str, Any]:
        return {
            "under_way": len(self._running),
            "resources": [
                {"tenant": tenant, "name": name, **limiter.snapshot()}
                for (tenant, name, is_inline), limiter in self._limiters.items()
                if not is_inline
            ],
        }

    async def close(self) -> None:
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _over(
        self,
        call: GatherCall,
        reservation: Reservation,
        first: "asyncio.Future[CallState]",
        task: "asyncio.Task[None]",
    ) -> None:
        del self._running[call.call_key]
        reservation.release_one()
        self._done[call.call_key] = call.expires_at
        broken = None if task.cancelled() else task.exception()
        if not first.done():
            first.set_result(CallState.ERROR if broken else CallState.TIMEOUT)
        if broken:
            log.error("pool.call_crashed", exc_info=broken, **about(call.address))

    async def _make(
        self, call: GatherCall, context: bytes, first: "asyncio.Future[CallState]"
    ) -> None:
        """Make one call, unless the deadline of its gather has passed."""
        left = call.expires_at - self._environment.now()
        if left <= 0:
            return
        limiter, since = self._limiter(call), None
        try:
            async with asyncio.timeout(left):
                async with limiter.slot(call.resource, len(call.body) or len(context)):
                    since = self._environment.monotonic()
                    answer = await self._call(request_of(call, context))
                message, state = self._read(call, answer)
                limiter.count(state, answer.seconds)
                since = None
                if not first.done():
                    first.set_result(state)
                await self._deliver(message)
        except TimeoutError:
            if since is not None:
                limiter.count(CallState.TIMEOUT, self._environment.monotonic() - since)
            log.debug("pool.deadline", resource=call.name, **about(call.address))

    def _read(
        self, call: GatherCall, answer: HttpResponse | HttpFailure
    ) -> tuple[WaitMessage, CallState]:
        """Convert an HTTP result to the message for the correlation and the state of the call."""
        match answer:
            case HttpFailure(state=state, detail=detail):
                return self._offer(call, _OUTCOMES[state], gather.failure(state, detail)), state
            case HttpResponse(status=401):
                refused = gather.failure(CallState.REJECTED, "HTTP 401")
                return self._offer(call, Outcome.REJECTED, refused), CallState.REJECTED
            case HttpResponse(status=status) if not 200 <= status < 300:
                broken = gather.failure(CallState.ERROR, f"HTTP {status}")
                return self._offer(call, Outcome.FAILED, broken), CallState.ERROR
            case _ if call.resource.reply is ReplyBy.CALLBACK:
                accept = Accept(
                    address=call.address, turn_id=self._environment.new_turn_id(), event=call.name
                )
                return accept, CallState.ACCEPTED
            case _:
                return self._direct(call, answer)

    def _direct(self, call: GatherCall, answer: HttpResponse) -> tuple[WaitMessage, CallState]:
        outcome, document = Outcome.RECEIVED, None
        if call.reads_status:
            document = document_of(answer.body)
            outcome = gather.outcome_reported(None if document is MISSING else document)
        offer = self._offer(call, outcome, answer.body or b"null", answer.content_type)
        return offer, gather.state_of_outcome(outcome, document)

    def _offer(
        self, call: GatherCall, outcome: Outcome, payload: bytes, content_type: str = JSON
    ) -> Offer:
        return Offer(
            address=call.address,
            turn_id=self._environment.new_turn_id(),
            event_id=f"call/{call.name}",
            source=Source.API,
            label=call.name,
            payload=payload,
            content_type=content_type,
            outcome=outcome,
        )

    async def _deliver(self, message: WaitMessage) -> None:
        """Send a message to the correlation, and try again until it is accepted or expired."""

        def warn(error: Exception, _: float) -> None:
            log.warning("pool.shard_away", error=str(error), **about(message.address))

        pauses = Pauses(chance=self._environment.chance)
        send = partial(self._send, message)
        await retrying(send, errors=(TransientError,), failed=warn, pauses=pauses)

    def _limiter(self, call: GatherCall) -> ResourceLimiter:
        key = (call.address.tenant, call.name, call.inline)
        limiter = self._limiters.get(key)
        if limiter is None:
            limiter = self._limiters[key] = ResourceLimiter(
                self._environment.monotonic, self._places, key[0]
            )
        return limiter


def request_of(call: GatherCall, context: bytes) -> HttpRequest:
    """Build the HTTP request of a call; our own headers override those of the resource."""
    resource = call.resource
    ours = {
        "X-Correlation-Id": call.address.correlation_id,
        "Idempotency-Key": f"{call.address.correlation_id}/{call.name}",
    }
    if resource.authorization is not None:
        ours["Authorization"] = resource.authorization
    if resource.reply is ReplyBy.CALLBACK:
        ours["X-Callback-Url"] = call.callback_url
    if call.trace:
        ours["traceparent"] = call.trace
    return HttpRequest(
        url=resource.url,
        method=resource.method,
        headers=merge_headers(merge_headers({"Content-Type": JSON}, resource.headers), ours),
        body=gather.call_body(call, context) if resource.method not in {"GET", "HEAD"} else b"",
        connect_timeout=resource.connect_timeout,
        read_timeout=resource.read_timeout,
        tenant=call.address.tenant,
    )
