"""A pool whose calls are scripts, and the real correlations that it tells. Time is simulated."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from actors.gathers.admission import CallPoolLimits
from actors.gathers.call_pool import CallPool
from core.gathers.gather import (
    CallBatch,
    GatherCall,
    Question,
    ReplyBy,
    Resource,
    wait_spec_of,
)
from core.shared.address import Address
from core.shared.call_outcome import CallState
from core.shared.errors import UnavailableError
from core.waits.messages import Offer, Register, Reply, WaitMessage
from core.waits.spec import Source, encode_spec
from handlers.http.client import HttpFailure, HttpRequest, HttpResponse
from tests.simulation.clockwork import simulate
from tests.unit.core.waits.builders import SingleCorrelation

TIMEOUT = 10.0
JSON = "application/json"
ADDRESS = Address(1, "g-1", "g-1")
ONE = Resource(url="http://one.example/ask")
DIRECT = replace(ONE, reply=ReplyBy.DIRECT)
# How long a call lasts, and what it then brings.
Script = tuple[float, HttpResponse | HttpFailure | Exception]
OK = HttpResponse(200, b"{}", JSON, 0.1)


def clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class CallPoolScenario:
    """A pool whose calls are scripts, and the real correlations that it tells.

    It ends with what the pool says of itself.
    """

    bounds: CallPoolLimits = field(default_factory=lambda: CallPoolLimits(places=100))
    end: dict[str, Any] = field(default_factory=dict)
    script: dict[str, Script] = field(default_factory=dict)
    sent: list[HttpRequest] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    said: list[WaitMessage] = field(default_factory=list)
    away_until: float = 0.0
    worlds: dict[Address, SingleCorrelation] = field(default_factory=dict)
    minted: int = 0
    pool: CallPool = field(init=False)

    def __post_init__(self) -> None:
        self.pool = CallPool(self.call, self.send, self, self.bounds)

    now = staticmethod(clock)
    monotonic = staticmethod(clock)

    def new_turn_id(self) -> str:
        self.minted += 1
        return f"turn-{self.minted}"

    def chance(self) -> float:
        return 0.5

    async def call(self, request: HttpRequest) -> HttpResponse | HttpFailure:
        self.sent.append(request)
        self.began.append(clock())
        lasts, answer = self.script.get(request.url, (0.0, OK))
        await asyncio.sleep(lasts)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def send(self, message: WaitMessage) -> Reply:
        self.said.append(message)
        if clock() < self.away_until:
            raise UnavailableError("shard-0 is away")
        return self.worlds[message.address].say(message, clock())

    def gather(self, *names: str, address: Address = ADDRESS) -> SingleCorrelation:
        """A correlation that waits for these."""
        spec = encode_spec(wait_spec_of([Question(name=name) for name in names], TIMEOUT))
        world = self.worlds[address] = SingleCorrelation()
        world.say(Register(address=address, turn_id="r", node_id="gather", spec=spec), clock())
        return world

    def begin(
        self, *calls: GatherCall, context: bytes = b"null"
    ) -> list[asyncio.Future[CallState]] | None:
        """Hand calls over."""
        return self.pool.begin(CallBatch(calls, context))

    async def ask(self, *calls: GatherCall) -> list[CallState]:
        """Begin, and wait until all is told; how each first answered."""
        first = self.begin(*calls)
        assert first is not None
        await asyncio.gather(*self.pool._running.values(), return_exceptions=True)
        await asyncio.sleep(0)
        return [answer.result() for answer in first]


def call(name: str = "one", resource: Resource = ONE, **fields: Any) -> GatherCall:
    values = {"address": ADDRESS, "expires_at": clock() + TIMEOUT, "callback_url": "http://m/cb"}
    return GatherCall(name=name, resource=resource, **values | fields)


def callback(name: str) -> Offer:
    return Offer(
        address=ADDRESS, turn_id="cb", event_id="cb", source=Source.API, label=name, payload=b"1"
    )


def run_scenario(
    story: Callable[[CallPoolScenario], Awaitable[Any]], bounds: CallPoolLimits | None = None
) -> CallPoolScenario:
    async def run() -> CallPoolScenario:
        scene = CallPoolScenario(bounds or CallPoolLimits(places=100))
        await story(scene)
        scene.end = limiter_snapshots(scene.pool)
        return scene

    return simulate(run())


def limiter_snapshots(pool: CallPool) -> dict[str, Any]:
    return {row["name"]: row for row in pool.snapshot()["resources"]}
