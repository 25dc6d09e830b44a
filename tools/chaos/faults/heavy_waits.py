"""One correlation that is far too large: too many events, too early, too big, too much to read.

What exceeds its bound may be refused in words; it must neither slow others down nor stop them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemError
from tools.chaos.fault import Blow, Fault, Scene, Strike
from tools.chaos.faults.bystander import Served, bystander, check_served, look_around
from tools.chaos.faults.memory import MEGABYTE, watched_memory
from tools.chaos.scenario import LONG, SERVICE

MAY_GROW = 256 * MEGABYTE
ANSWERED_WITHIN = 10.0
"""Seconds that a request about a wait that is too large may take."""
_AT_ONCE = 16
_PATIENCE = 30.0
_LARGE = 1_000_000  # bytes; a body may have 1 MB
_EARLY = 100_000
_EVENTS = 100  # as many as a wait may expect
_OVERSIZE_FLAWS = frozenset({429, 500, 502, 503, 504})
Ids = tuple[str, str]


class Answers:
    """What a crowd of requests met: statuses, and the longest that one of them took."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.statuses: Counter[int] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.longest = 0.0

    @property
    def bad(self) -> dict[int, int]:
        """Answers that say `later` or `our fault`, where neither is true; 0 is none at all."""
        return {s: n for s, n in self.statuses.items() if s in _OVERSIZE_FLAWS or s == 0}

    async def send_all(self, sends: Iterable[Callable[[], Awaitable[Any]]]) -> None:
        """Send all of them, some at once."""
        async with asyncio.TaskGroup() as group:
            for send in sends:
                await self._slots.acquire()
                group.create_task(self._note(send))

    async def register(self, ids: Ids, data: dict[str, Any]) -> None:
        """Register a wait."""
        body = {"executionId": ids[0], "correlationId": ids[1], "nodeId": "wait", "data": data}
        await self.send_all([lambda: self._client.post("/api/wait-states", body)])

    async def read(self, ids: Ids) -> None:
        """Read a wait with its result."""
        await self.send_all([lambda: self._client.get(wait_path(*ids))])

    def event(self, ids: Ids, name: str, body: bytes) -> Callable[[], Awaitable[Any]]:
        """A callback, to be sent."""
        headers = {"X-Execution-Id": ids[0], "X-Correlation-Id": ids[1], "X-Event-Id": name}
        return lambda: self._client.post(f"/api/internal/callbacks/{SERVICE}", body, headers)

    def named_event(self, ids: Ids, name: str, body: bytes) -> Callable[[], Awaitable[Any]]:
        """A callback of the service of this name, to be sent."""
        headers = {"X-Execution-Id": ids[0], "X-Correlation-Id": ids[1], "X-Event-Id": name}
        return lambda: self._client.post(f"/api/internal/callbacks/{name}", body, headers)

    async def _note(self, send: Callable[[], Awaitable[Any]]) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE):
                reply = await send()
        except ProblemError as problem:
            self.statuses[problem.status] += 1
        except (TimeoutError, UnreachableError):
            self.statuses[0] += 1
        else:
            self.statuses[200] += 1
            if isinstance(reply, dict) and "verdict" in reply:
                self.verdicts[f"{reply['verdict']} {reply.get('reason') or ''}".strip()] += 1
        finally:
            self.longest = max(self.longest, time.monotonic() - began)
            self._slots.release()


async def hot_correlation(scene: Scene, answers: Answers) -> None:
    """One correlation whose status goes on changing after its wait has ended."""
    ids = _ids(scene, "hot")
    await answers.register(ids, _wait())
    await answers.send_all(
        answers.event(ids, f"hot-{number}", b'{"status": %d}' % number)
        for number in range(scene.times)
    )
    await answers.read(ids)


async def early_flood(scene: Scene, answers: Answers) -> None:
    """One pair of ids that nobody has registered, by mistake the same for all events."""
    ids, body = _ids(scene, "early"), b'"%s"' % (b"x" * _EARLY)
    await answers.send_all(
        answers.event(ids, f"early-{number}", body) for number in range(scene.times)
    )
    await answers.register(ids, _wait())
    await answers.read(ids)


async def large_specs(scene: Scene, answers: Answers) -> None:
    """Registrations of a megabyte, made of as many objects as that can hold."""
    for number in range(scene.times):
        # Each with something of its own: nobody may remember only one of them.
        body = {"items": [[]] * (_LARGE // 4), "number": number}
        call = {"url": "http://127.0.0.1:9/process", "body": body}
        await answers.register(_ids(scene, f"spec-{number}"), {"apiCall": call, "timeout": LONG})


async def large_results(scene: Scene, answers: Answers) -> None:
    """A wait for a hundred events of a megabyte, which is then read again and again."""
    ids, body = _ids(scene, "result"), b'"%s"' % (b"x" * (_LARGE - 2_000))
    names = [f"part-{number}" for number in range(_EVENTS)]
    await answers.register(ids, {"events": [{"name": name} for name in names], "timeout": LONG})
    await answers.send_all(answers.named_event(ids, name, body) for name in names)
    for _ in range(scene.times):
        await answers.read(ids)


def _heavy(attack: Callable[[Scene, Answers], Awaitable[None]], what: str) -> Strike:
    """A fault that does this, while a bystander looks on."""

    async def strike(scene: Scene) -> None:
        quiet = scene.seconds / 6
        before = await look_around(scene.client, quiet)
        answers = Answers(scene.client)
        async with watched_memory(scene.local.run_dir) as memory:
            async with bystander(scene.client) as during:
                at = scene.elapsed
                await attack(scene, answers)
            after = await look_around(scene.client, quiet)
        scene.note(Blow(f"{what.format(scene.times)}: {_told(answers)}", at))
        check_served(scene, during, max(before, after, key=_median))
        scene.check(
            "what is too much is refused in words",
            not answers.bad,
            f"{answers.bad or 'no answer that is untrue'}",
        )
        scene.check(
            "every answer comes in time",
            answers.longest <= ANSWERED_WITHIN,
            f"{answers.longest:.1f} s at most; the bound is {ANSWERED_WITHIN:g} s",
        )
        scene.check("memory is bounded", *memory.within(MAY_GROW))

    return strike


def _median(served: Served) -> float:
    return served.median


def _told(answers: Answers) -> str:
    statuses = ", ".join(f"{count:,} by {status}" for status, count in answers.statuses.items())
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in answers.verdicts.items())
    return f"{statuses}; {verdicts or 'no verdicts'}"


def _ids(scene: Scene, name: str) -> Ids:
    run = scene.drill.plan.run
    return f"heavy-{run}-{name}", f"h-{run}-{name}"


def _wait() -> dict[str, Any]:
    return {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": LONG}


HEAVY_WAITS = (
    Fault(
        name="hot-correlation",
        summary="Ten thousand events for one correlation, long after its wait has ended.",
        strike=_heavy(hot_correlation, "{:,} events for one correlation"),
        times=10_000,
    ),
    Fault(
        name="early-flood",
        summary="A thousand large events for one pair of ids, then its wait is registered.",
        strike=_heavy(early_flood, "{:,} early events of 100 kB"),
        times=1_000,
    ),
    Fault(
        name="large-specs",
        summary="Registrations of a megabyte each.",
        strike=_heavy(large_specs, "{:,} registrations of 1 MB"),
        times=50,
    ),
    Fault(
        name="large-results",
        summary="A wait that gathers a hundred events of a megabyte, read again and again.",
        strike=_heavy(large_results, "100 events of 1 MB, read {:,} times"),
        times=10,
    ),
)
