"""A pool that comes back finds in Postgres what is still to be called."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import structlog
from msgspec.structs import replace

from actors.gathers.admission import CallPoolLimits
from actors.gathers.call_pool import CallPool
from actors.gathers.call_pool_actor import PoolActor
from actors.runtime.names import call_pool_name
from actors.waits.shard import Shard
from core.access.tokens import CALLBACK, STREAM, verify
from core.gathers.gather import GatherSpec, Question, Resource, encode_gather_spec, wait_spec_of
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import Accept, Register
from core.waits.spec import encode_spec
from handlers.http.client import HttpRequest, HttpResponse
from storage.access import keys
from storage.encryption.secret_values import encrypt_gather_spec
from storage.gathers import resources
from storage.postgres.pool import PoolOptions, open_pool
from tests.support.plain_secrets import find_plain
from tests.support.shards import address, api, ask, running_shard

MARKER = "hunter22hunter22hunter22"
NAMES = ("registered", "promised", "inline", "answered", "removed")


class Scene:
    """A pool actor on a real Postgres and a real shard; its calls are noted."""

    def __init__(
        self,
        config: Config,
        shard: Shard,
        database: Any,
        name: str,
        bounds: CallPoolLimits | None = None,
    ) -> None:
        self.shard = shard
        self.sent: list[HttpRequest] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.actor = PoolActor(name, config)
        self.actor._database = database
        bounds = bounds or CallPoolLimits(places=10)
        self.pool = CallPool(
            self.call, lambda message: ask(shard, message), self.actor._environment, bounds
        )

    async def call(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        await self.may_answer.wait()
        return HttpResponse(202, b"", "", 0.01)

    async def look(self) -> list[HttpRequest]:
        """What it calls by itself."""
        self.sent.clear()
        await self.actor._look(self.pool)
        self.may_answer.set()
        await asyncio.gather(*self.pool._running.values())
        await asyncio.sleep(0)
        return sorted(self.sent, key=lambda request: request.url)


@pytest.fixture
def config(database: str) -> Config:
    return Config(dsn=database, public_url="http://muster.example", call_pools=2)


@pytest.fixture
async def scenes(config: Config) -> AsyncIterator[dict[str, Scene]]:
    """Both pools of an instance."""
    database = await open_pool(PoolOptions(dsn=config.dsn, name="test"))
    await keys.create_tenant(database, "own")
    async with running_shard(config.dsn) as shard:
        pools = (f"pool-calls-{index}" for index in range(config.call_pools))
        found = {name: Scene(config, shard, database, name) for name in pools}
        for scene in found.values():
            await scene.actor._environment.clock.sync(database)
        yield found
    await database.close()
    structlog.reset_defaults()


async def begin(scene: Scene, where: Address, *, ids_in_body: bool = False) -> None:
    """A gather that a replica took and then died over, three seconds ago."""
    inline = Resource(url="http://inline.example", authorization=f"Bearer {MARKER}")
    body = msgspec.Raw(b'{"own":1}')
    asks = [
        Question(name=name, inline=inline, body=body) if name == "inline" else Question(name=name)
        for name in NAMES
    ]
    asked = GatherSpec(
        asks=tuple(asks),
        trace="00-1-2-01",
        callback_path="/api/internal/callbacks/{name}",
        ids_in_body=ids_in_body,
    )
    message = Register(
        address=where,
        turn_id="r",
        node_id="gather",
        spec=encode_spec(wait_spec_of(asks, 20.0)),
        asked=encode_gather_spec(encrypt_gather_spec(asked, where)),
    )
    await ask(scene.shard, message)
    await ask(scene.shard, Accept(address=where, turn_id="a", event="promised"))
    await ask(scene.shard, replace(api(where), label="answered"))
    await scene.actor._database.execute(
        "update execution_wait_states set created_at = created_at - interval '3 seconds'"
    )


async def test_what_nobody_handed_over_is_called_once(
    config: Config, scenes: dict[str, Scene]
) -> None:
    where = address()
    scene = scenes["pool-calls-0"]
    for name in ("registered", "promised", "answered"):
        await resources.put(scene.actor._database, 1, name, Resource(url=f"http://{name}.example"))
    await begin(scene, where)
    sent = {name: await scenes[name].look() for name in scenes}
    called = {request.url for requests in sent.values() for request in requests}
    assert called == {"http://registered.example", "http://inline.example"}
    for name in ("registered", "inline"):
        urls = [request.url for request in sent[call_pool_name(1, name, config)]]
        assert f"http://{name}.example" in urls
    for again in scenes.values():
        assert await again.look() == []
    # What a resource has agreed to is in Postgres: another incarnation does not ask again.
    for name, old in scenes.items():
        fresh = Scene(config, old.shard, old.actor._database, name)
        await fresh.actor._environment.clock.sync(old.actor._database)
        assert await fresh.look() == []


@pytest.mark.parametrize("ids_in_body", [False, True])
async def test_a_call_that_was_found_is_the_call_that_would_have_been_made(
    config: Config, scenes: dict[str, Scene], ids_in_body: bool
) -> None:
    where = address()
    scene = scenes[call_pool_name(1, "inline", config)]
    await begin(scene, where, ids_in_body=ids_in_body)
    (request,) = await scene.look()
    told = json.loads(request.body)
    assert told["own"] == 1
    assert request.headers["X-Correlation-Id"] == where.correlation_id
    assert request.headers["Idempotency-Key"] == f"{where.correlation_id}/inline"
    assert request.headers["Authorization"] == f"Bearer {MARKER}"
    assert await find_plain(config.dsn, MARKER) == []
    assert request.headers["traceparent"] == "00-1-2-01"
    assert ("correlationId" in told) == ids_in_body


async def test_a_token_that_was_found_again_is_as_good_as_the_first(
    config: Config, scenes: dict[str, Scene]
) -> None:
    where = address()
    scene = scenes[call_pool_name(1, "registered", config)]
    database = scene.actor._database
    await resources.put(database, 1, "registered", Resource(url="http://registered.example"))
    live = await keys.signing_secrets(database, CALLBACK, b"k" * 32)
    await begin(scene, where)
    sent = [request for request in await scene.look() if "registered" in request.url]
    url = sent[0].headers["X-Callback-Url"]
    place, _, token = url.partition("?token=")
    assert place == "http://muster.example/api/internal/callbacks/registered"
    assert json.loads(sent[0].body)["callbackUrl"] == url
    now = scene.actor._environment.now()
    assert verify(token, now + config.token_grace + 60, live) is None, "it ends with its wait"
    claims = verify(token, now + config.token_grace, live)
    assert claims is not None
    assert (claims.address, claims.source) == (where, "registered")
    assert verify(token, now, live, STREAM) is None


async def test_a_gather_that_is_being_handed_over_is_left_alone(
    config: Config, scenes: dict[str, Scene]
) -> None:
    scene = scenes[call_pool_name(1, "inline", config)]
    await begin(scene, address())
    await scene.actor._database.execute(
        "update execution_wait_states set created_at = now() - interval '1 second'"
    )
    assert await scene.look() == []


async def test_what_is_cancelled_while_it_is_looked_for_is_not_called(
    config: Config, scenes: dict[str, Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, where = scenes[call_pool_name(1, "inline", config)], address()
    await begin(scene, where)
    read = resources.read_gather_spec

    async def cancelled_meanwhile(pool: Any, found: Address) -> GatherSpec | None:
        scene.pool.cancel_calls([found.key])
        return await read(pool, found)

    monkeypatch.setattr(resources, "read_gather_spec", cancelled_meanwhile)
    assert await scene.look() == []


async def test_a_look_asks_for_its_secret_once(
    config: Config, scenes: dict[str, Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scenes[call_pool_name(1, "inline", config)]
    for _ in range(3):
        await begin(scene, address())
    read, asked = keys.signing_secrets, []

    async def counted(*args: Any) -> list[bytes]:
        asked.append(args)
        return await read(*args)

    monkeypatch.setattr(keys, "signing_secrets", counted)
    assert len(await scene.look()) == 3
    assert len(asked) == 1


async def test_what_there_is_no_room_for_is_found_when_there_is(
    config: Config, scenes: dict[str, Scene]
) -> None:
    name = call_pool_name(1, "inline", config)
    old = scenes[name]
    places = [address() for _ in range(3)]
    for where in places:
        await begin(old, where)
    narrow = Scene(config, old.shard, old.actor._database, name, CallPoolLimits(queue=4))
    await narrow.actor._environment.clock.sync(old.actor._database)
    found = []
    for _ in range(3):
        narrow.may_answer.clear()
        found.append(len(await narrow.look()))
    assert found == [2, 1, 0]
