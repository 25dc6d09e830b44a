"""A pool's mind: it makes the calls it is given and tells their correlations how they went.

A call is known by its gather and its resource, so that being told twice means calling once. What
was called and by whom is in Postgres: a pool that comes back reads there what is still to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Protocol

import structlog

from actors.gathers.admission import Bounds, Holding, Places, Room
from actors.gathers.resource_limiter import Lane
from core.gathers.gather import (
    Call,
    Errand,
    ReplyBy,
    State,
    body_of,
    failure,
    outcome_said,
    state_of_outcome,
)
from core.shared.backoff import backoff
from core.shared.errors import TransientError
from core.shared.json_path import MISSING, document_of
from core.waits.messages import Accept, Message, Offer, Reply
from core.waits.spec import Source
from core.waits.strategy import Outcome
from handlers.http.client import Answer, Failure, Request
from telemetry.logging import about

log = structlog.get_logger("pool")

LANES = 10_000
_OUTCOMES = {
    State.REJECTED: Outcome.REJECTED,
    State.TIMEOUT: Outcome.TIMED_OUT,
    State.CONNECTION_CLOSED: Outcome.FAILED,
    State.ERROR: Outcome.FAILED,
}


class World(Protocol):
    """Everything a pool depends on."""

    def now(self) -> float:
        """The database's time."""
        ...

    def monotonic(self) -> float:
        """A local clock that never jumps."""
        ...

    def mint(self) -> str:
        """A new id for a turn."""
        ...

    def chance(self) -> float:
        """A number in [0, 1)."""
        ...


class Pool:
    """Makes calls, as many at once as it may."""

    def __init__(
        self,
        call: Callable[[Request], Awaitable[Answer | Failure]],
        send: Callable[[Message], Awaitable[Reply]],
        world: World,
        bounds: Bounds,
    ) -> None:
        self._call = call
        self._send = send
        self._world = world
        self._room = Room(bounds)
        self._places = Places(bounds)
        # By tenant, name and whether the resource came with a request: those of one name may be
        # many, and have nothing to do with the one that is registered.
        self._lanes: dict[tuple[int, str, bool], Lane] = {}
        self._running: dict[tuple[bytes, str], asyncio.Task[None]] = {}
        # Until when a finished call must not be begun again.
        self._done: dict[tuple[bytes, str], float] = {}
        # Gathers that were called off since the last look for missed ones began.
        self._off: set[bytes] = set()

    def begin(self, errand: Errand) -> list["asyncio.Future[State]"] | None:
        """Begin the calls that are new; for each, how its resource first answered.

        None if there is no room for them: then none is begun.
        """
        new = {call.place: call for call in errand.calls if not self.is_known(*call.place)}
        if not new:
            return []
        calls = tuple(new.values())
        holding = self._room.hold(calls[0].address.tenant, Errand(calls, errand.context))
        if holding is None:
            return None
        answered: list[asyncio.Future[State]] = []
        for call in calls:
            first: asyncio.Future[State] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._make(call, errand.context, first))
            self._running[call.place] = task
            task.add_done_callback(partial(self._over, call, holding, first))
            answered.append(first)
        return answered

    def has_room(self, tenant: int) -> bool:
        """Whether more calls of this tenant could be begun."""
        return self._room.has_any(tenant)

    def call_off(self, gathers: Iterable[bytes]) -> int:
        """Stop the calls of these gathers; how many there were."""
        wanted = set(gathers)
        self._off |= wanted
        tasks = [task for (key, _), task in self._running.items() if key in wanted]
        for task in tasks:
            task.cancel()
        return len(tasks)

    def is_known(self, key: bytes, name: str) -> bool:
        """Whether this call was begun here, or is not to be begun any more."""
        return (key, name) in self._running or (key, name) in self._done or key in self._off

    def forget(self) -> None:
        """Let go of what is over for good."""
        now = self._world.now()
        self._off.clear()
        self._done = {place: until for place, until in self._done.items() if until > now}
        if len(self._lanes) > LANES:
            idle = sorted(self._lanes, key=lambda k: self._lanes[k].last_used)
            for key in [k for k in idle if self._lanes[k].is_idle][: len(idle) // 2]:
                del self._lanes[key]

    def snapshot(self) -> dict[str, Any]:
        """How busy it is, and how each resource fares."""
        return {
            "under_way": len(self._running),
            "resources": [
                {"tenant": tenant, "name": name, **lane.snapshot()}
                for (tenant, name, is_inline), lane in self._lanes.items()
                if not is_inline
            ],
        }

    async def close(self) -> None:
        """Stop everything."""
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _over(
        self,
        call: Call,
        holding: Holding,
        first: "asyncio.Future[State]",
        task: "asyncio.Task[None]",
    ) -> None:
        del self._running[call.place]
        holding.end_one()
        self._done[call.place] = call.expires_at
        broken = None if task.cancelled() else task.exception()
        if not first.done():
            first.set_result(State.ERROR if broken else State.TIMEOUT)
        if broken:
            log.error("pool.call_crashed", exc_info=broken, **about(call.address))

    async def _make(self, call: Call, context: bytes, first: "asyncio.Future[State]") -> None:
        """One call; past its gather's deadline there is nobody left to tell."""
        left = call.expires_at - self._world.now()
        if left <= 0:
            return
        lane, since = self._lane(call), None
        try:
            async with asyncio.timeout(left):
                async with lane.turn(call.resource, len(call.body) or len(context)):
                    since = self._world.monotonic()
                    answer = await self._call(request_of(call, context))
                message, state = self._read(call, answer)
                lane.count(state, answer.seconds)
                since = None
                if not first.done():
                    first.set_result(state)
                await self._tell(message)
        except TimeoutError:
            if since is not None:
                lane.count(State.TIMEOUT, self._world.monotonic() - since)
            log.debug("pool.deadline", resource=call.name, **about(call.address))

    def _read(self, call: Call, answer: Answer | Failure) -> tuple[Message, State]:
        """What the answer means for the correlation."""
        match answer:
            case Failure(state=state, detail=detail):
                return self._offer(call, _OUTCOMES[state], failure(state, detail)), state
            case Answer(status=401):
                refused = failure(State.REJECTED, "HTTP 401")
                return self._offer(call, Outcome.REJECTED, refused), State.REJECTED
            case Answer(status=status) if not 200 <= status < 300:
                broken = failure(State.ERROR, f"HTTP {status}")
                return self._offer(call, Outcome.FAILED, broken), State.ERROR
            case _ if call.resource.reply is ReplyBy.CALLBACK:
                accept = Accept(address=call.address, turn_id=self._world.mint(), event=call.name)
                return accept, State.ACCEPTED
            case _:
                return self._direct(call, answer)

    def _direct(self, call: Call, answer: Answer) -> tuple[Message, State]:
        outcome, document = Outcome.RECEIVED, None
        if call.journals:
            document = document_of(answer.body)
            outcome = outcome_said(None if document is MISSING else document)
        offer = self._offer(call, outcome, answer.body or b"null", answer.content_type)
        return offer, state_of_outcome(outcome, document)

    def _offer(
        self, call: Call, outcome: Outcome, payload: bytes, content_type: str = "application/json"
    ) -> Offer:
        return Offer(
            address=call.address,
            turn_id=self._world.mint(),
            event_id=f"call/{call.name}",
            source=Source.API,
            label=call.name,
            payload=payload,
            content_type=content_type,
            outcome=outcome,
        )

    async def _tell(self, message: Message) -> None:
        """Until the correlation has it, or its time is over."""
        attempt = 0
        while True:
            try:
                await self._send(message)
            except TransientError as error:
                log.warning("pool.shard_away", error=str(error), **about(message.address))
                jitter = self._world.chance()
                await asyncio.sleep(backoff(attempt, base=0.05, cap=1.0, jitter=jitter))
                attempt += 1
            else:
                return

    def _lane(self, call: Call) -> Lane:
        key = (call.address.tenant, call.name, call.inline)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self._world.monotonic, self._places, key[0])
        return lane


def request_of(call: Call, context: bytes) -> Request:
    """The call on the wire. What makes it known to its receiver comes last, and stays."""
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
    return Request(
        url=resource.url,
        method=resource.method,
        headers=_merged({"Content-Type": "application/json"}, resource.headers, ours),
        body=body_of(call, context) if resource.method not in {"GET", "HEAD"} else b"",
        connect_timeout=resource.connect_timeout,
        read_timeout=resource.read_timeout,
        tenant=call.address.tenant,
    )


def _merged(*groups: dict[str, str]) -> dict[str, str]:
    """The headers of all groups; a later one goes before an earlier, however it is spelled."""
    found = {name.lower(): (name, value) for group in groups for name, value in group.items()}
    return dict(found.values())
