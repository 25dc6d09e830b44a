"""From a durable event to its webhook delivered: how fast, how even, and whether groups mind each
other.
"""

import asyncio
import time
from dataclasses import dataclass, field

import orjson
import psutil

from bench.front import front_door
from bench.harness import Measure, Result, err, interleave, ratios_of, spread
from bench.http_load import Plan
from bench.peers import senders
from bench.peers.receiver import Receiver, receiver_service
from bench.peers.senders import marked, send_by
from bench.stage import Stage, cpu_of
from bench.tables import connected
from bench.wire import Door, answered, told

PLACES = 64
BATCH = 500
CALLERS = 2
DELAYS = (0, 20)
TARGETS = 20
LIMIT = 200  # a second, over all targets
GROUPS = 10_000
POISON = 200
STORED = b'"deduplicationId"'
TYPE = "shop:orders:order:placed"
GOALS = {
    **{f"deliveries / aiohttp at {ms} ms": "≥ 0.5" for ms in DELAYS},
    **{f"deliveries / httpx at {ms} ms": "≥ 0.8" for ms in DELAYS},
    **{f"deliveries / plain consumer at {ms} ms": "≥ 5" for ms in DELAYS},
    "allowance used": "≥ 0.98",
    "most in a second / limit": "≤ 1",
    "with a poisoned group / without": "≥ 0.95",
}


async def run(stage: Stage) -> Result:
    """Ours against loops that keep nothing; then a limit kept; then a group that always fails."""
    result = Result("dispatch", goals=GOALS)
    size = 2_000 if stage.quick else 10_000
    async with front_door(stage, dispatch_buffer=20_000) as door:
        for delay in DELAYS:
            async with receiver_service(delay) as receiver:
                scene = Scene(stage, door, receiver)
                await scene.open()
                await _race(scene, result, size, delay)
                await scene.close()
        async with receiver_service(0) as receiver:
            scene = Scene(stage, door, receiver)
            await _keep_limit(scene, result)
            await _poison(scene, result)
    return result


@dataclass
class Scene:
    """The product, and a receiver that its subscriptions lead to."""

    stage: Stage
    door: Door
    receiver: Receiver
    plain_dsn: str = ""
    rounds: int = 0
    subscriptions: list[str] = field(default_factory=list)

    async def open(self) -> None:
        """One pool and one subscription, as wide as the loops; a table for the plain consumer."""
        await self.pool("bench", concurrency=PLACES)
        await self.subscribe("bench", self.receiver.url)
        self.plain_dsn = await self.stage.empty_database()
        async with connected(self.plain_dsn) as conn:
            await conn.execute(senders.TABLE)

    async def close(self) -> None:
        """Leave nothing that takes events."""
        while self.subscriptions:
            await self._tell("DELETE", f"/api/subscriptions/{self.subscriptions.pop()}")

    async def pool(self, code: str, **terms: object) -> None:
        """A pool of these terms; one that is there gets them."""
        async with connected(self.door.dsn) as conn:
            known = await conn.fetchval("select 1 from dispatch_pools where code = $1", code)
        if known:
            await self._tell("PATCH", f"/api/dispatch-pools/{code}", terms)
        else:
            await self._tell("POST", "/api/dispatch-pools", {"code": code, "name": code, **terms})

    async def subscribe(self, pool: str, target: str, **fields: object) -> None:
        """Somebody who takes the events."""
        code = f"sub-{len(self.subscriptions)}-{time.monotonic_ns()}"
        document = {
            "code": code,
            "name": code,
            "target": target,
            "eventTypes": [{"eventTypeCode": TYPE}],
            "dispatchPoolId": pool,
            **fields,
        }
        made = await self._tell("POST", "/api/subscriptions", document)
        self.subscriptions.append(made["id"])

    def requests(self, count: int, poison: int = 0) -> list[bytes]:
        """So many events, in batches; with some of one group that its receiver refuses for ever."""
        self.rounds += 1
        mark = f"r{self.rounds}"
        items = [_event(n, mark, f"g{n % GROUPS}") for n in range(count)]
        for n in range(poison):
            at = n * len(items) // poison
            items.insert(at, _event(count + n, mark, "poison", poison=True))
        parts = (items[at : at + BATCH] for at in range(0, len(items), BATCH))
        return [self.door.post("/api/events/batch", b"[" + b",".join(p) + b"]") for p in parts]

    async def ours(self, count: int, poison: int = 0) -> Measure:
        """So many events in, until the last webhook is delivered; each exactly once."""
        await self.fresh()
        plan = Plan(
            port=self.door.port,
            requests=self.requests(count, poison),
            connections=CALLERS,
            expect=STORED,
        )
        cpu, began = self.cpu(), time.monotonic()
        report = await answered(plan, count + poison)
        await self.receiver.until(count)
        seconds = time.monotonic() - began
        cpu = self.cpu() - cpu + report.cpu_seconds
        await self._check(count)
        return Measure(count, seconds, cpu)

    async def by(self, kind: str, count: int) -> Measure:
        """The same deliveries by somebody else."""
        await self.stage.checkpoint()
        if kind == "plain":
            count //= 10  # at a tenth of the speed, it need not take ten times as long
            async with connected(self.plain_dsn) as conn:
                await conn.execute("truncate plain_jobs")
                await conn.execute(senders.FILL, [marked(n, "plain") for n in range(count)])
        measure = await send_by(kind, self.receiver.url, count, PLACES, self.plain_dsn)
        came = await self.receiver.told()
        assert len(set(came.marks)) == count, (kind, len(came.marks), count)
        return measure

    async def starts(self, count: int) -> list[float]:
        """When each delivery began, as the pool wrote it down."""
        async with connected(self.door.dsn) as conn, asyncio.timeout(30):
            rows: list[float] = []
            while len(rows) < count:
                await asyncio.sleep(0.1)
                found = await conn.fetch(
                    "select extract(epoch from attempted_at)::float8 as at"
                    " from dispatch_attempts order by attempted_at"
                )
                rows = [row["at"] for row in found]
        assert len(rows) == count, (len(rows), count)
        return rows

    def cpu(self) -> float:
        """CPU of the product, Postgres and the receiver."""
        return self.stage.system_cpu_seconds() + cpu_of(psutil.Process(self.receiver.process.pid))

    async def fresh(self) -> None:
        """Empty tables, and nothing of them still to be written."""
        async with connected(self.door.dsn) as conn:
            await conn.execute("truncate events, dispatch_jobs, dispatch_attempts")
        await self.stage.checkpoint()

    async def _check(self, count: int) -> None:
        """Each delivery came once, and is completed with one attempt."""
        came = await self.receiver.told()
        assert len(came.marks) == len(set(came.marks)) == count, (len(came.marks), count)
        async with connected(self.door.dsn) as conn:
            async with asyncio.timeout(30):
                while True:
                    done = await conn.fetchval(
                        "select count(*) from dispatch_jobs where status = 'COMPLETED'"
                    )
                    if done == count:
                        break
                    await asyncio.sleep(0.1)
            sent = await conn.fetchval(
                "select count(*) from dispatch_attempts where status = 'SUCCESS'"
            )
        assert sent == count, (sent, count)

    async def _tell(self, method: str, path: str, document: object = None) -> dict[str, str]:
        body = b"" if document is None else orjson.dumps(document)
        answer: dict[str, str] = await told(self.door.port, self.door.request(method, path, body))
        return answer


async def _race(scene: Scene, result: Result, size: int, delay: int) -> None:
    await scene.ours(size // 5)
    found = await interleave(
        {
            "ours": lambda: scene.ours(size),
            "aiohttp": lambda: scene.by("aiohttp", size),
            "httpx": lambda: scene.by("httpx", size // 2),
            "plain": lambda: scene.by("plain", size if delay == 0 else size // 4),
        },
        rounds=1 if scene.stage.quick else 5,
    )
    names = {"aiohttp": "aiohttp", "httpx": "httpx", "plain": "plain consumer"}
    result.ours[f"at {delay} ms"] = _figures(found["ours"])
    for kind, name in names.items():
        result.peers.setdefault(name, {})[f"at {delay} ms"] = _figures(found[kind])
        result.ratios[f"deliveries / {name} at {delay} ms"] = ratios_of(found["ours"], found[kind])


async def _keep_limit(scene: Scene, result: Result) -> None:
    """A pool with a limit and more to do than it may: is all of it used, and never more?"""
    seconds = 8 if scene.stage.quick else 30
    await scene.pool("limited", concurrency=PLACES, rateLimit=LIMIT * 60)
    for number in range(TARGETS):
        await scene.subscribe("limited", f"{scene.receiver.url}/{number}")
    count = LIMIT * (seconds + 4) // TARGETS
    await scene.fresh()
    plan = Plan(port=scene.door.port, requests=scene.requests(count), connections=1, expect=STORED)
    await answered(plan, count)
    await scene.receiver.until(count * TARGETS)
    arrivals = sorted((await scene.receiver.told()).times)
    starts = await scene.starts(count * TARGETS)
    await scene.close()
    # Not the first second, in which the events still come in, nor the last.
    begin, end = arrivals[0] + 1.5, arrivals[0] + 1.5 + seconds
    used = sum(begin <= at < end for at in arrivals) / (LIMIT * seconds)
    most, came = most_within(starts, 1.0) / LIMIT, most_within(arrivals, 1.0) / LIMIT
    err.print(
        f"  limit: {used:.1%} used; in any second {most:.1%} started, {came:.1%} seen to come"
    )
    result.ours["limited"] = {
        "allowance_used": round(used, 4),
        "most_starts_in_a_second": round(most, 4),
        "most_arrivals_in_a_second": round(came, 4),
    }
    result.ratios["allowance used"] = spread([used])
    result.ratios["most in a second / limit"] = spread([came])


async def _poison(scene: Scene, result: Result) -> None:
    """Many groups in their order, with one that always fails, and without."""
    count = 4_000 if scene.stage.quick else 20_000
    await scene.pool("ordered", concurrency=PLACES)
    order = {"mode": "BLOCK_ON_ERROR", "maxRetries": 10}
    await scene.subscribe("ordered", scene.receiver.url, **order)
    await scene.ours(count // 5)
    found = await interleave(
        {"without": lambda: scene.ours(count), "with": lambda: scene.ours(count, POISON)},
        rounds=1 if scene.stage.quick else 5,
    )
    await scene.close()
    result.ours["groups"] = {name: _figures(seen) for name, seen in found.items()}
    result.ratios["with a poisoned group / without"] = ratios_of(found["with"], found["without"])


def _event(number: int, mark: str, group: str, **more: object) -> bytes:
    return (
        b'{"type":"%s","source":"bench","deduplicationId":"%s-%d","messageGroup":"%s","data":%s}'
    ) % (TYPE.encode(), mark.encode(), number, group.encode(), marked(number, mark, **more))


def most_within(times: list[float], window: float) -> int:
    """The most of these times that any window of so many seconds has."""
    most = first = 0
    for last, at in enumerate(times):
        while times[first] <= at - window:
            first += 1
        most = max(most, last - first + 1)
    return most


def _figures(found: list[Measure]) -> dict[str, object]:
    return {
        "per_second": spread([seen.rate for seen in found]),
        "cpu_us": spread([seen.cpu_microseconds for seen in found]),
    }
