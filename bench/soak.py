"""A steady rate for a long time: whether anything drifts, grows or bloats.

Each correlation is registered, gets its callback a second later and its event after another, and
is forgotten soon after its deadline. So the tables reach a steady size, and what still grows leaks.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec
import psutil

from actors.client import ActorClient
from bench.actors import actors
from bench.aggregate import BATCH, SHARDS, measure_ours
from bench.harness import Result, err, spread
from bench.load import CONFIG, Load, make_load
from bench.peers import bare
from bench.shards import shards_of
from bench.stage import Stage
from bench.stats import slope, weighted_percentile
from bench.tables import Tables, connected, wal_bytes
from core.shared.errors import MusterError
from core.waits.config import WaitConfig
from core.waits.messages import OfferReply, Register, RegisterReply, Reply, Verdict, WaitMessage
from core.waits.spec import encode_spec

# Of the peak, which is of runs of a second or two: tables fit into memory and nothing is removed.
# Over hours each correlation is also forgotten, its pages are vacuumed and go through checkpoints;
# and nobody lets a service run at the edge.
SHARE = 1 / 3
TICK = 0.02
STEP = 50  # ticks from one phase of a correlation to the next: a second
WARM_UP = 0.1  # of the time; it counts for nothing
OPENED = "opened"
# What a run is for. Whatever else is answered, it counts for nothing.
HEALTHY = (OPENED, Verdict.MATCHED)
GOALS = {
    "p99 last fifth / first": "≤ 1.2",
    "rate / asked for": "≥ 0.99",
    "HOT updates / updates": "≥ 0.9",
    "WAL bytes / bare loop": "≤ 2",
}


async def run(stage: Stage) -> Result:
    """Find the peak, then stay at a part of it."""
    size = 6_000 if stage.quick else 20_000
    peak = median([(await measure_ours(stage, size)).rate for _ in range(1 if stage.quick else 3)])
    bare_wal = await _bare_wal(stage, size)
    err.print(f"  peak {peak:,.0f} events/s; staying at {SHARE:.0%} for {stage.minutes:g} minutes")
    dsn = await stage.database()
    try:
        async with actors(dsn, shards=SHARDS, retention=_brief(stage)) as gateway:
            soak = Soak(gateway, stage.minutes * 60, SHARE * peak, _spec(_brief(stage)))
            await soak.run()
            await soak.check()
    finally:
        await stage.drop(dsn)
    return _result(soak, peak, bare_wal)


def _brief(stage: Stage) -> float:
    """How long a wait may take, and for how long it is kept after: short, so that rows go."""
    return min(60.0, stage.minutes * 20)


def _spec(timeout: float) -> bytes:
    return encode_spec(WaitConfig.model_validate(CONFIG | {"timeout": timeout}).to_spec())


async def _bare_wal(stage: Stage, size: int) -> float:
    """WAL bytes for each event of the bare loop, without what its database costs to make."""
    before = await wal_bytes(stage.server.dsn)
    await stage.drop(await stage.database())
    made = await wal_bytes(stage.server.dsn)
    measure = await bare.measure(stage, size, BATCH)
    after = await wal_bytes(stage.server.dsn)
    return ((after - made) - (made - before)) / measure.amount


@dataclass
class Soak:
    """A run and what was seen in it. Times are in seconds since its start."""

    gateway: ActorClient
    seconds: float
    rate: float
    spec: bytes
    began: float = 0.0
    # When messages were due, how long until they were acknowledged, how many were taken.
    samples: list[tuple[float, float, int]] = field(default_factory=list)
    replies: Counter[str] = field(default_factory=Counter)
    resident: list[tuple[float, float]] = field(default_factory=list)
    tables: list[Tables] = field(default_factory=list)

    async def run(self) -> None:
        """Send on schedule, whatever becomes of what was sent before."""
        self.began = time.perf_counter()
        watcher = asyncio.create_task(self._watch())
        sent: set[asyncio.Task[None]] = set()
        try:
            for due, messages in self._schedule():
                await asyncio.sleep(max(0.0, due - self._now()))
                task = asyncio.create_task(self._send(messages, due))
                sent.add(task)
                task.add_done_callback(sent.discard)
            await asyncio.gather(*sent)
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def check(self, within: float = 30.0) -> None:
        """What was acknowledged is in the tables; in a healthy run just that, and all completed."""
        deadline = time.monotonic() + within
        async with connected(self.gateway.config.dsn) as conn:
            while not self._accounted_for(await Tables.read(conn)):
                assert time.monotonic() < deadline, (self.tables[-1], self.replies)
                await asyncio.sleep(0.5)
            still_open = await conn.fetchval(
                "select count(*) from execution_wait_states where status <> 'completed'"
            )
        assert self.others or still_open == 0, still_open

    def _accounted_for(self, seen: Tables) -> bool:
        self.tables.append(seen)
        opened, counted = self.replies[OPENED], self.replies[Verdict.MATCHED]
        if self.others:  # early events count later, and a lost answer may have been a good one
            return seen.waits >= opened and seen.lines >= counted
        return (seen.waits, seen.lines) == (opened, counted)

    @property
    def others(self) -> dict[str, int]:
        """Answers that a healthy run does not have."""
        return {kind: count for kind, count in self.replies.items() if kind not in HEALTHY}

    def p(self, share: float, start: float = WARM_UP, end: float = 1.0) -> float:
        """A percentile of the latencies of what was due between two parts of the time."""
        within = [(late, n) for at, late, n in self.samples if start <= at / self.seconds < end]
        return weighted_percentile(within, share)

    @property
    def achieved(self) -> float:
        """Messages acknowledged per second, after the warm-up."""
        start = WARM_UP * self.seconds
        done = sum(n for at, late, n in self.samples if start <= at + late < self.seconds)
        return done / (self.seconds - start)

    @property
    def growth(self) -> float:
        """Bytes per second that the shards' memory grows."""
        return slope([(at, size) for at, size in self.resident if at >= 2 * WARM_UP * self.seconds])

    def _now(self) -> float:
        return time.perf_counter() - self.began

    def _schedule(self) -> Iterator[tuple[float, list[WaitMessage]]]:
        """Each correlation's messages, a second apart; all of it is fixed but its ids."""
        per_tick = self.rate / 3 * TICK
        ticks = int(self.seconds / TICK)
        loads: deque[Load] = deque()
        for tick in range(ticks + 2 * STEP):
            count = int((tick + 1) * per_tick) - int(tick * per_tick) if tick < ticks else 0
            loads.append(make_load(count))
            phases = [[self._short(message) for message in loads[-1].registers]]
            if tick >= STEP:
                phases.append(loads[-1 - STEP].callbacks)
            if tick >= 2 * STEP:
                phases.append(loads.popleft().events)
            yield from ((tick * TICK, messages) for messages in phases if messages)

    def _short(self, message: WaitMessage) -> WaitMessage:
        assert isinstance(message, Register)
        return msgspec.structs.replace(message, spec=self.spec)

    async def _send(self, messages: list[WaitMessage], due: float) -> None:
        try:
            replies = await self.gateway.send_many(messages)
        except MusterError as error:
            self.replies[type(error).__name__] += len(messages)
            return
        kinds = Counter(map(_kind, replies))
        self.replies.update(kinds)
        if taken := sum(kinds[kind] for kind in HEALTHY):
            self.samples.append((due, self._now() - due, taken))

    async def _watch(self) -> None:
        """Note memory and tables now and then, and tell how it goes."""
        shards = [psutil.Process(shard["pid"]) for shard in await shards_of(self.gateway)]
        every = max(1.0, self.seconds / 180)
        async with connected(self.gateway.config.dsn) as conn:
            while True:
                await asyncio.sleep(every)
                size = sum(shard.memory_info().rss for shard in shards)
                self.resident.append((self._now(), size))
                self.tables.append(await Tables.read(conn))
                if len(self.resident) % 5 == 0:
                    self._tell(5 * every)

    def _tell(self, since: float) -> None:
        now, seen = self._now(), self.tables[-1]
        recent = [(late, n) for at, late, n in self.samples if at + late > now - since]
        rate = sum(n for _, n in recent) / since
        p99 = weighted_percentile(recent, 0.99) * 1e3 if recent else 0.0
        err.print(
            f"  {now:6.0f} s: {rate:,.0f} events/s, p99 {p99:.1f} ms, "
            f"shards {self.resident[-1][1] / 1e6:,.0f} MB, tables {seen.size / 1e6:,.0f} MB, "
            f"{seen.dead:,} dead rows {self.others or ''}",
            soft_wrap=True,
        )


def _kind(reply: Reply) -> str:
    match reply:
        case RegisterReply():
            return OPENED
        case OfferReply():
            return reply.verdict
        case _:
            return type(reply).__name__


def _result(soak: Soak, peak: float, bare_wal: float) -> Result:
    last = soak.tables[-1]
    wal = (last.wal - soak.tables[0].wal) / (
        last.waits + last.lines - soak.tables[0].waits - soak.tables[0].lines
    )
    first, final = soak.p(0.99, WARM_UP, 0.2 + WARM_UP), soak.p(0.99, 0.8)
    ours: dict[str, Any] = {
        "minutes": soak.seconds / 60,
        "peak_events_per_second": round(peak),
        "asked_events_per_second": round(soak.rate),
        "events_per_second": round(soak.achieved, 1),
        "p50_ms": round(soak.p(0.5) * 1e3, 2),
        "p99_ms": round(soak.p(0.99) * 1e3, 2),
        "p99_first_fifth_ms": round(first * 1e3, 2),
        "p99_last_fifth_ms": round(final * 1e3, 2),
        "shard_mb_per_hour": round(soak.growth * 3600 / 1e6, 2),
        "shard_mb": round(soak.resident[-1][1] / 1e6, 1),
        "dead_rows_most": max(seen.dead for seen in soak.tables),
        "dead_rows_last": last.dead,
        "tables_mb_most": round(max(seen.size for seen in soak.tables) / 1e6, 1),
        "wal_bytes_per_event": round(wal, 1),
        "other_answers": soak.others,
    }
    peers = {"bare": {"wal_bytes_per_event": round(bare_wal, 1)}}
    ratios = {
        "p99 last fifth / first": spread([final / first]),
        "rate / asked for": spread([soak.achieved / soak.rate]),
        "HOT updates / updates": spread([last.hot_updates / last.updates]),
        "WAL bytes / bare loop": spread([wal / bare_wal]),
    }
    return Result("soak", ours, peers, ratios, GOALS)
