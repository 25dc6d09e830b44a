"""Traces one request through the product: the modules it enters, in order, up to `Shard.handle`.

Only Ray and the HTTP server are left out: the app gets an ASGI call, the batch goes to the shard
over a loopback connection, and the rows are in an embedded PostgreSQL.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import httpx

from actors.client import ActorClient
from actors.messaging.shard_socket import BatchServer, Endpoint
from actors.waits.shard import Shard
from actors.waits.shard_actor import ShardActor
from core.shared.config import Config
from host.postgres import embedded
from host.provision import prepare_database
from serve_app.api import create_app, with_fast_path
from storage.encryption import cipher
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import PoolOptions, open_pool
from storage.waits.shard_store import ShardStore
from tools.load.tasks import background

WALKS = {
    "callback": "/api/internal/callbacks/external-service",
    "event": "/api/internal/events/orders",
}
WAIT = {
    "executionId": "run",
    "correlationId": "order",
    "data": {"apiCall": {"url": "http://127.0.0.1:9"}, "kafkaEvent": {"topic": "orders"}},
}
# Background loops may run during a walk: only modules that every walk enters belong to it.
REPEATS = 5
_ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    """Notes the modules that are entered, by process, until a shard handles the batch."""

    def __init__(self) -> None:
        self.modules: dict[str, dict[str, None]] = {"ingress": {}, "shard": {}}
        self._process = "ingress"
        self._done = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note one call; `sys.setprofile` calls this."""
        if event != "call" or self._done:
            return
        module = _module_of(frame.f_code.co_filename)
        if module is None or module == "tools.walk":
            return
        if frame.f_code.co_qualname == "_Peer.data_received":
            self._process = "shard"
        self.modules[self._process][module] = None
        self._done = frame.f_code is Shard.handle.__code__


def _module_of(filename: str) -> str | None:
    with contextlib.suppress(ValueError):
        path = Path(filename).relative_to(_ROOT)
        if path.parts[0] != ".venv":
            return ".".join(path.with_suffix("").parts)
    return None


@contextlib.contextmanager
def _recording() -> Iterator[Recorder]:
    recorder = Recorder()
    sys.setprofile(recorder)
    try:
        yield recorder
    finally:
        sys.setprofile(None)


@contextlib.asynccontextmanager
async def _running_shard(config: Config) -> AsyncIterator[Endpoint]:
    clock = DatabaseClock(time.monotonic, time.time)
    environment: Any = SimpleNamespace(
        now=clock.now,
        monotonic=time.monotonic,
        chance=random.random,
        arm_deadlines=lambda _: None,
        cancel_calls=lambda _: None,
    )
    options = PoolOptions(dsn=config.dsn, name="shard-0", max_size=2, statement_timeout=10.0)
    store = ShardStore(options, "shard-0", config.early_ttl, clock)
    await clock.sync(await store.pool())
    shard = Shard(config, store, environment)
    actor = ShardActor("shard-0", config)
    actor._hosted = shard  # noqa: SLF001  without Ray it cannot start one
    server = BatchServer(actor.handle_batch)
    try:
        async with background(shard.run_forever()):
            yield await server.listen("127.0.0.1")
    finally:
        server.close()
        await store.close()


@contextlib.asynccontextmanager
async def _running_app(config: Config, endpoint: Endpoint) -> AsyncIterator[Any]:
    client = ActorClient(config, await open_pool(PoolOptions(dsn=config.dsn, name="walk")))

    async def endpoint_of_shard() -> Endpoint:
        return endpoint

    async def open_client() -> ActorClient:
        return client

    # The shard's actor handle, as Ray would give it.
    handle: Any = SimpleNamespace(
        endpoint=SimpleNamespace(remote=endpoint_of_shard),
        long_poll=SimpleNamespace(remote=lambda *_: asyncio.Event().wait()),
    )
    client._directory._handles._values["shard-0"] = (handle, math.inf)  # noqa: SLF001
    app = create_app(open_client, config)
    async with app.router.lifespan_context(app):
        yield with_fast_path(app)


async def walk(kind: str, dsn: str) -> dict[str, list[str]]:
    """Return the modules that a request enters up to `Shard.handle`, by process."""
    config = Config(dsn=dsn, shards=1, secret_keys=(b"k" * 32,))
    cipher.configure(config)
    key = (await prepare_database(dsn, None)).new_key
    recorders = []
    async with (
        _running_shard(config) as endpoint,
        _running_app(config, endpoint) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://muster",
            headers={"Authorization": f"Bearer {key}"},
        ) as http,
    ):
        (await http.post("/api/wait-states", json=WAIT)).raise_for_status()
        for _ in range(1 + REPEATS):
            with _recording() as recorder:
                ids = {"execution_id": "run", "correlation_id": "order"}
                (await http.post(WALKS[kind], json=ids)).raise_for_status()
            recorders.append(recorder)
    first, *others = recorders[1:]  # the very first fills caches
    return {
        process: [name for name in names if all(name in one.modules[process] for one in others)]
        for process, names in first.modules.items()
    }


def main() -> None:
    """Print the walk of one kind of request."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__)
    parser.add_argument("kind", choices=WALKS)
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-walk-") as folder:
        server = embedded.start(Path(folder) / "data", durable=False)
        try:
            found = asyncio.run(walk(options.kind, server.dsn))
        finally:
            embedded.stop(server, mode="immediate")
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
