"""A dispatch pool at work in the test's own loop: real Postgres, real deliveries on loopback."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from aiohttp import web

from actors.dispatch.pool_actor import DispatchActor
from actors.runtime.names import dispatch_pool_name
from core.dispatch.job import JobRef, JobStatus, encode_job_refs
from core.dispatch.job_actions import JobAction
from core.shared.call_policy import LOOPBACK
from core.shared.config import Config
from storage.access import keys
from storage.dispatch import job_actions, jobs, pools
from storage.dispatch.jobs import Attempt
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres.pool import Pool
from tests.support.dispatch import JobFactory

Answer = tuple[int, Any]
OK: Answer = (200, {})


def deferred(seconds: int = 1) -> Answer:
    return 200, {"ack": False, "delaySeconds": seconds}


@dataclass(frozen=True)
class ReceivedRequest:
    """One request that came."""

    at: float
    path: str
    job_id: str
    body: bytes
    headers: dict[str, str]

    @property
    def number(self) -> int:
        """What a job of `Shop.post` brings."""
        return int(json.loads(self.body)["n"])


@dataclass
class WebhookReceiver:
    """A receiver: each of its paths answers as it is told to."""

    port: int = 0
    arrivals: dict[str, list[ReceivedRequest]] = field(default_factory=dict)
    answers: dict[str, Callable[[ReceivedRequest], Answer]] = field(default_factory=dict)
    takes: dict[str, float] = field(default_factory=dict)
    under_way: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{path}"

    def came(self, path: str) -> list[ReceivedRequest]:
        return self.arrivals.setdefault(path, [])

    async def take(self, request: web.Request) -> web.Response:
        path = request.path.lstrip("/")
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        arrival = ReceivedRequest(time.monotonic(), path, headers["webhook-id"], body, headers)
        self.came(path).append(arrival)
        self.under_way[path] += 1
        self.most[path] = max(self.most[path], self.under_way[path])
        try:
            status, said = self.answers.get(path, lambda _: OK)(arrival)
            await asyncio.sleep(self.takes.get(path, 0.0))
        finally:
            self.under_way[path] -= 1
        return web.json_response(said, status=status)


@contextlib.asynccontextmanager
async def webhook_receiver() -> AsyncIterator[WebhookReceiver]:
    hooks = WebhookReceiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", hooks.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    hooks.port = runner.addresses[0][1]
    try:
        yield hooks
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def running_pool(dsn: str, pool_no: int, **config: Any) -> AsyncIterator[DispatchActor]:
    """The actor of a pool, without Ray. At the end it stops as if it were killed."""
    settings = Config(dsn=dsn, call_networks=LOOPBACK, log_level="ERROR", **config)
    actor = DispatchActor(dispatch_pool_name(pool_no), settings)
    await actor._started()
    try:
        yield actor
    finally:
        await actor._close()
        await actor._dispatcher.close()
        await actor._stack.aclose()
        actor._database.terminate()
        structlog.reset_defaults()


class PoolTenant:
    """A tenant with a pool and a path of the receiver, all of its own."""

    def __init__(self, dsn: str, database: Pool, hooks: WebhookReceiver, row: PoolRow) -> None:
        self.dsn, self.database, self.hooks, self.row = dsn, database, hooks, row
        self.tenant, self.pool_no, self.path = row.tenant, row.pool_no, row.code
        self.jobs = JobFactory(database, row.tenant, row.pool_no)

    @classmethod
    async def open(
        cls, dsn: str, database: Pool, hooks: WebhookReceiver, name: str, **terms: Any
    ) -> "PoolTenant":
        tenant = await keys.create_tenant(database, name)
        new = NewPool(pool_id=f"dpl_{name}", code=name, name=name, **terms)
        row = await pools.create(database, tenant, new, 1_000)
        assert isinstance(row, PoolRow)
        return cls(dsn, database, hooks, row)

    def working(self, **config: Any) -> contextlib.AbstractAsyncContextManager[DispatchActor]:
        return running_pool(self.dsn, self.pool_no, **{"dispatch_poll": 0.5} | config)

    @property
    def came(self) -> list[ReceivedRequest]:
        return self.hooks.came(self.path)

    def answers(self, answer: Callable[[ReceivedRequest], Answer]) -> None:
        self.hooks.answers[self.path] = answer

    async def post(
        self, numbers: Sequence[int], to: DispatchActor | None = None, **fields: Any
    ) -> list[str]:
        """Post jobs that bring these numbers, and hand them over to somebody; their ids."""
        usual = {"target_url": self.hooks.url(self.path)}
        new = [
            self.jobs.new(payload=json.dumps({"n": number}).encode(), **usual | fields)
            for number in numbers
        ]
        made = await jobs.create(self.database, self.tenant, new)
        if to is not None:
            pointers: list[JobRef] = [
                one.to_job_ref(self.tenant, its.position)
                for one, its in zip(new, made, strict=True)
            ]
            await to.offer(encode_job_refs(pointers))
        return [one.job_id for one in made]

    async def change(self, **fields: Any) -> None:
        """Give the pool other terms."""
        changed = await pools.change(
            self.database, self.tenant, self.row.code, lambda held: replace(held, **fields)
        )
        assert isinstance(changed, PoolRow)

    async def do(self, verb: JobAction, *job_ids: str) -> None:
        await job_actions.apply(self.database, self.tenant, verb, job_ids)

    async def statuses(self) -> Counter[str]:
        rows = await self.database.fetch(
            "select status, count(*) as jobs from dispatch_jobs where tenant_id = $1 group by 1",
            self.tenant,
        )
        return Counter({row["status"]: row["jobs"] for row in rows})

    async def status(self, job_id: str) -> str:
        return (await self.jobs.status(job_id))[0]

    async def attempts(self, job_id: str) -> list[Attempt]:
        return await jobs.attempts(self.database, self.tenant, job_id, 0, 100)

    async def until(self, what: Callable[[], Awaitable[bool] | bool], within: float = 30) -> None:
        """Wait for it; say how jobs stand if it never comes."""
        deadline = time.monotonic() + within
        while True:
            found = what()
            if await found if isinstance(found, Awaitable) else found:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"{dict(await self.statuses())}, {len(self.came)} came")
            await asyncio.sleep(0.02)

    async def done(self, within: float = 30) -> None:
        """Wait until every job has ended."""

        async def all_ended() -> bool:
            open_ones = {JobStatus.QUEUED, JobStatus.PENDING, JobStatus.IN_PROGRESS}
            return not open_ones & set(await self.statuses())

        await self.until(all_ended, within)


def numbers(arrivals: Sequence[ReceivedRequest]) -> list[int]:
    return [one.number for one in arrivals]


def busiest(arrivals: Sequence[ReceivedRequest], seconds: float) -> int:
    """The most that came within so many seconds."""
    times = sorted(one.at for one in arrivals)
    most = first = 0
    for last, at in enumerate(times):
        while at - times[first] > seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
