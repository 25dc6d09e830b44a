"""Traces one request through the product: the modules it enters, in order, up to `Shard.handle`.

Only Ray and the HTTP server are left out: the app gets an ASGI call, the batch goes to the shard
over a loopback connection, and the rows are in an embedded PostgreSQL.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from actors.client import ActorClient
from actors.messaging.shard_socket import BatchServer, Endpoint
from actors.waits.shard import Shard
from actors.waits.shard_actor import ShardActor
from core.access.permissions import Permission
from core.shared.address import Address
from core.shared.config import Config
from host.postgres import embedded
from serve_app.api import create_app, with_fast_path
from storage.access import keys
from storage.postgres.clock import DatabaseClock
from storage.postgres.migrate import migrate
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits.shard_store import ShardStore

WALKS = {
    "callback": "/api/internal/callbacks/external-service",
    "event": "/api/internal/events/orders",
}
# Background loops may run during a walk: only modules that every walk enters belong to it.
REPEATS = 5
_ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    """Notes the modules that are entered, by process, until a shard handles the batch."""

    def __init__(self) -> None:
        self.ingress: dict[str, None] = {}
        self.shard: dict[str, None] = {}
        self._modules = self.ingress
        self._done = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note one call; `sys.setprofile` calls this."""
        if event != "call" or self._done:
            return
        module = _module_of(frame.f_code.co_filename)
        if module is None or module == "tools.walk":
            return
        if frame.f_code.co_qualname == "_Peer.data_received":
            self._modules = self.shard
        self._modules[module] = None
        self._done = frame.f_code is Shard.handle.__code__


def _module_of(filename: str) -> str | None:
    with contextlib.suppress(ValueError):
        path = Path(filename).relative_to(_ROOT)
        if path.parts[0] != ".venv":
            return ".".join(path.with_suffix("").parts)
    return None


class _Environment:
    """The shard's clock; there is no timer and no pool."""

    def __init__(self) -> None:
        self.clock = DatabaseClock(time.monotonic, time.time)
        self.now = self.clock.now
        self.monotonic = time.monotonic
        self.chance = random.random

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None: ...

    def cancel_calls(self, gathers: list[bytes]) -> None: ...


class _Method:
    def __init__(self, result: Any = None) -> None:
        self._result = result

    async def remote(self, *_: Any) -> Any:
        if self._result is None:
            await asyncio.Event().wait()
        return self._result


class _Handle:
    """The shard's actor handle, as Ray would give it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = _Method(endpoint)
        self.long_poll = _Method()


@contextlib.asynccontextmanager
async def _running_shard(config: Config) -> AsyncIterator[Endpoint]:
    environment = _Environment()
    options = PoolOptions(dsn=config.dsn, name="shard-0", max_size=2, statement_timeout=10.0)
    store = ShardStore(options, "shard-0", config.early_ttl, environment.clock)
    await environment.clock.sync(await store.pool())
    shard = Shard(config, store, environment)
    actor = ShardActor("shard-0", config)
    actor._shard = shard  # noqa: SLF001  without Ray it cannot start one
    server = BatchServer(actor.handle_batch)
    loops = [asyncio.create_task(shard.load_forever()), asyncio.create_task(shard.write_forever())]
    try:
        yield await server.listen("127.0.0.1")
    finally:
        server.close()
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await store.close()


async def _create_key(pool: Pool) -> str:
    tenant = await keys.create_tenant(pool, f"walk-{uuid.uuid4().hex[:8]}")
    return await keys.create_key(
        pool,
        keys.NewKey(
            tenant=tenant,
            name="walk",
            prefix=uuid.uuid4().hex[:12],
            secret=uuid.uuid4().hex,
            permissions=tuple(Permission),
        ),
    )


async def _call(app: Any, path: str, key: str, document: dict[str, Any]) -> dict[str, Any]:
    """Send one POST to the app and return the JSON of its answer."""
    body = json.dumps(document).encode()
    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    answer: dict[str, Any] = json.loads(b"".join(part.get("body", b"") for part in sent))
    if sent[0]["status"] >= 400:
        raise SystemExit(f"POST {path} was refused: {answer}")
    return answer


@contextlib.contextmanager
def _recording() -> Iterator[Recorder]:
    recorder = Recorder()
    sys.setprofile(recorder)
    try:
        yield recorder
    finally:
        sys.setprofile(None)


async def walk(kind: str, dsn: str) -> dict[str, list[str]]:
    """Return the modules that a request enters up to `Shard.handle`, by process."""
    config = Config(dsn=dsn, shards=1, secret_keys=(b"k" * 32,))
    async with _running_shard(config) as endpoint:
        pool = await open_pool(PoolOptions(dsn=dsn, name="walk"))
        client = ActorClient(config, pool)
        client._directory._handles["shard-0"] = _Handle(endpoint)  # noqa: SLF001

        async def open_client() -> ActorClient:
            return client

        app = create_app(open_client, config)
        async with app.router.lifespan_context(app):
            served, key = with_fast_path(app), await _create_key(pool)
            wait = {"executionId": "run", "correlationId": "order"}
            expected = {"apiCall": {"url": "http://127.0.0.1:9"}, "kafkaEvent": {"topic": "orders"}}
            await _call(served, "/api/wait-states", key, {**wait, "data": expected})
            ids = {"execution_id": "run", "correlation_id": "order"}
            recorders = []
            await _call(served, WALKS[kind], key, ids)  # fills caches
            for _ in range(REPEATS):
                with _recording() as recorder:
                    await _call(served, WALKS[kind], key, ids)
                recorders.append(recorder)
    return {
        "ingress": _common([recorder.ingress for recorder in recorders]),
        "shard": _common([recorder.shard for recorder in recorders]),
    }


def _common(walks: list[dict[str, None]]) -> list[str]:
    return [module for module in walks[0] if all(module in other for other in walks)]


async def _walk_on_new_server(kind: str) -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory(prefix="muster-walk-") as folder:
        server = embedded.start(Path(folder) / "data", durable=False)
        try:
            await migrate(server.dsn)
            return await walk(kind, server.dsn)
        finally:
            embedded.stop(server, mode="immediate")


def main() -> None:
    """Print the walk of one kind of request."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__)
    parser.add_argument("kind", choices=WALKS)
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    options = parser.parse_args()
    found = asyncio.run(_walk_on_new_server(options.kind))
    if options.json:
        print(json.dumps(found))
        return
    numbers = itertools.count(1)
    for process, modules in found.items():
        print(f"{process}:")
        for module in modules:
            print(f"{next(numbers):4}. {module}")
    print(f"{len({*found['ingress'], *found['shard']})} modules")


if __name__ == "__main__":
    main()
