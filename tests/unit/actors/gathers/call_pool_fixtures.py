"""A pool whose calls are scripts, and the real correlations that it tells. Time is simulated."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from actors.gathers.admission import Bounds
from actors.gathers.call_pool import Pool
from core.gathers.gather import Ask, Call, Errand, ReplyBy, Resource, State, spec_of
from core.shared.address import Address
from core.shared.errors import UnavailableError
from core.waits.messages import Message, Offer, Register, Reply
from core.waits.spec import Source, encode_spec
from handlers.http.client import Answer, Failure, Request
from tests.simulation.clockwork import simulate
from tests.unit.core.waits.builders import World

TIMEOUT = 10.0
JSON = "application/json"
ADDRESS = Address(1, "g-1", "g-1")
ONE = Resource(url="http://one.example/ask")
DIRECT = replace(ONE, reply=ReplyBy.DIRECT)
# How long a call lasts, and what it then brings.
Script = tuple[float, Answer | Failure | Exception]
OK = Answer(200, b"{}", JSON, 0.1)


def clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Scene:
    """A pool whose calls are scripts, and the real correlations that it tells.

    It ends with what the pool says of itself.
    """

    bounds: Bounds = field(default_factory=lambda: Bounds(places=100))
    end: dict[str, Any] = field(default_factory=dict)
    script: dict[str, Script] = field(default_factory=dict)
    sent: list[Request] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    said: list[Message] = field(default_factory=list)
    away_until: float = 0.0
    worlds: dict[Address, World] = field(default_factory=dict)
    minted: int = 0
    pool: Pool = field(init=False)

    def __post_init__(self) -> None:
        self.pool = Pool(self.call, self.send, self, self.bounds)

    now = staticmethod(clock)
    monotonic = staticmethod(clock)

    def mint(self) -> str:
        self.minted += 1
        return f"turn-{self.minted}"

    def chance(self) -> float:
        return 0.5

    async def call(self, request: Request) -> Answer | Failure:
        self.sent.append(request)
        self.began.append(clock())
        lasts, answer = self.script.get(request.url, (0.0, OK))
        await asyncio.sleep(lasts)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def send(self, message: Message) -> Reply:
        self.said.append(message)
        if clock() < self.away_until:
            raise UnavailableError("shard-0 is away")
        return self.worlds[message.address].say(message, clock())

    def gather(self, *names: str, address: Address = ADDRESS) -> World:
        """A correlation that waits for these."""
        spec = encode_spec(spec_of([Ask(name=name) for name in names], TIMEOUT))
        world = self.worlds[address] = World()
        world.say(Register(address=address, turn_id="r", node_id="gather", spec=spec), clock())
        return world

    def begin(self, *calls: Call, context: bytes = b"null") -> list[asyncio.Future[State]] | None:
        """Hand calls over."""
        return self.pool.begin(Errand(calls, context))

    async def ask(self, *calls: Call) -> list[State]:
        """Begin, and wait until all is told; how each first answered."""
        first = self.begin(*calls)
        assert first is not None
        await asyncio.gather(*self.pool._running.values(), return_exceptions=True)
        await asyncio.sleep(0)
        return [answer.result() for answer in first]


def call(name: str = "one", resource: Resource = ONE, **fields: Any) -> Call:
    values = {"address": ADDRESS, "expires_at": clock() + TIMEOUT, "callback_url": "http://m/cb"}
    return Call(name=name, resource=resource, **values | fields)


def callback(name: str) -> Offer:
    return Offer(
        address=ADDRESS, turn_id="cb", event_id="cb", source=Source.API, label=name, payload=b"1"
    )


def play(story: Callable[[Scene], Awaitable[Any]], bounds: Bounds | None = None) -> Scene:
    async def run() -> Scene:
        scene = Scene(bounds or Bounds(places=100))
        await story(scene)
        scene.end = lanes(scene.pool)
        return scene

    return simulate(run())


def lanes(pool: Pool) -> dict[str, Any]:
    return {row["name"]: row for row in pool.snapshot()["resources"]}
