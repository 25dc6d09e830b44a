"""Events in, by the batch route: stored, and a job for each subscription that wants them."""

import time
from dataclasses import dataclass

import orjson

from bench.front import front_door
from bench.harness import Arm, Measure, Result, interleave, ratios_of, spread
from bench.http_load import Plan
from bench.peers.senders import marked
from bench.stage import Stage
from bench.tables import connected
from bench.wire import Door, answered, told

BATCH = 200
CALLERS = 4
SUBSCRIBERS = (0, 1, 100)
STORED = b'"deduplicationId"'
TABLE = "create table plain_events (id text primary key, type text, source text, data jsonb)"
FILL = "insert into plain_events values ($1, $2, $3, $4)"


async def run(stage: Stage) -> Result:
    """With nobody who wants them, one, and a hundred; against one insert for each event."""
    size = 4_000 if stage.quick else 20_000
    async with front_door(stage) as door:
        scene = Scene(stage, door, await stage.empty_database())
        await scene.open()
        arms = {f"{n} subscribers": _arm(scene, n, size) for n in SUBSCRIBERS}
        for arm in arms.values():
            await arm()
        found = await interleave(
            {**arms, "plain": lambda: scene.plain(size // 4)}, rounds=1 if stage.quick else 5
        )
    return _result(found)


def _arm(scene: "Scene", subscribers: int, size: int) -> Arm:
    # A hundred jobs for each event: fewer events make as many rows.
    count = size if subscribers < 100 else size // 20
    return lambda: scene.put(count, subscribers)


@dataclass
class Scene:
    """The product, with a pool that is suspended: what is measured is only the way in."""

    stage: Stage
    door: Door
    plain_dsn: str
    rounds: int = 0

    async def open(self) -> None:
        """A type for each number of subscribers, and they."""
        await self._tell("POST", "/api/dispatch-pools", {"code": "still", "name": "still"})
        await self._tell("POST", "/api/dispatch-pools/still/suspend")
        for count in SUBSCRIBERS:
            for number in range(count):
                code = f"takes-{count}-{number}"
                await self._tell(
                    "POST",
                    "/api/subscriptions",
                    {
                        "code": code,
                        "name": code,
                        "target": "http://127.0.0.1:9/hook",
                        "eventTypes": [{"eventTypeCode": _type(count)}],
                        "dispatchPoolId": "still",
                    },
                )
        async with connected(self.plain_dsn) as conn:
            await conn.execute(TABLE)

    async def put(self, count: int, subscribers: int) -> Measure:
        """So many events by the batch route; each is stored once, with all its jobs."""
        async with connected(self.door.dsn) as conn:
            await conn.execute("truncate events, dispatch_jobs")
        await self.stage.checkpoint()
        self.rounds += 1
        items = [_event(n, f"r{self.rounds}", _type(subscribers)) for n in range(count)]
        # What makes many jobs comes a few at a time: past its bound the product would say 429.
        batch = BATCH if subscribers < 100 else BATCH // 10
        parts = (items[at : at + batch] for at in range(0, count, batch))
        requests = [self.door.post("/api/events/batch", b"[" + b",".join(p) + b"]") for p in parts]
        plan = Plan(port=self.door.port, requests=requests, connections=CALLERS, expect=STORED)
        cpu = self.stage.system_cpu_seconds()
        report = await answered(plan, count)
        cpu = self.stage.system_cpu_seconds() - cpu + report.cpu_seconds
        async with connected(self.door.dsn) as conn:
            rows = await conn.fetchrow(
                "select (select count(*) from events), (select count(*) from dispatch_jobs)"
            )
        assert tuple(rows or ()) == (count, count * subscribers), (rows, count, subscribers)
        return Measure(count, report.seconds, cpu)

    async def plain(self, count: int) -> Measure:
        """One insert and one commit for each event, one after another, with nobody to tell."""
        async with connected(self.plain_dsn) as conn:
            await conn.execute("truncate plain_events")
            await self.stage.checkpoint()
            began = time.monotonic()
            for n in range(count):
                data = marked(n, "plain").decode()
                await conn.execute(FILL, f"e{n}", _type(0), "bench", data)
            return Measure(count, time.monotonic() - began)

    async def _tell(self, method: str, path: str, document: object = None) -> None:
        body = b"" if document is None else orjson.dumps(document)
        await told(self.door.port, self.door.request(method, path, body))


def _type(subscribers: int) -> str:
    return f"shop:orders:order:wanted-by-{subscribers}"


def _event(number: int, mark: str, type_: str) -> bytes:
    return b'{"type":"%s","source":"bench","deduplicationId":"%s-%d","data":%s}' % (
        type_.encode(),
        mark.encode(),
        number,
        marked(number, mark),
    )


def _result(found: dict[str, list[Measure]]) -> Result:
    result = Result("events")
    plain = found.pop("plain")
    for name, seen in found.items():
        result.ours[name] = {
            "events_per_second": spread([one.rate for one in seen]),
            "cpu_us_per_event": spread([one.cpu_microseconds for one in seen]),
        }
        result.ratios[f"events / plain inserts, {name}"] = ratios_of(seen, plain)
    result.peers["plain inserts"] = {"events_per_second": spread([one.rate for one in plain])}
    return result
