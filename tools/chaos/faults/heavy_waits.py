"""One correlation that is far too large: too many events, too early, too big, too much to read.

What exceeds its bound may be refused in words; it must neither slow others down nor stop them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from tools.chaos.fault import Disruption, Fault, FaultRun, InjectFault
from tools.chaos.faults.bystander import BystanderStats, bystander, check_bystander, sample_service
from tools.chaos.faults.memory import MEGABYTE, watch_memory
from tools.chaos.scenario import LONG_TIMEOUT, SERVICE

MAX_MEMORY_GROWTH = 256 * MEGABYTE
MAX_ANSWER_SECONDS = 10.0
"""Seconds that a request about a wait that is too large may take."""
_MAX_CONCURRENT = 16
_TIMEOUT = 30.0
_LARGE = 1_000_000  # bytes; a body may have 1 MB
_EARLY = 100_000
_EVENTS = 100  # as many as a wait may expect
_OVERSIZE_FLAWS = frozenset({429, 500, 502, 503, 504})
CorrelationIds = tuple[str, str]


class ResponseStats:
    """What a crowd of requests met: statuses, and the longest that one of them took."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
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

    async def register(self, ids: CorrelationIds, data: dict[str, Any]) -> None:
        """Register a wait."""
        body = {"executionId": ids[0], "correlationId": ids[1], "nodeId": "wait", "data": data}
        await self.send_all([lambda: self._client.post("/api/wait-states", body)])

    async def read(self, ids: CorrelationIds) -> None:
        """Read a wait with its result."""
        await self.send_all([lambda: self._client.get(wait_path(*ids))])

    def event(self, ids: CorrelationIds, name: str, body: bytes) -> Callable[[], Awaitable[Any]]:
        """Prepare a callback."""
        headers = {"X-Execution-Id": ids[0], "X-Correlation-Id": ids[1], "X-Event-Id": name}
        return lambda: self._client.post(f"/api/internal/callbacks/{SERVICE}", body, headers)

    def named_event(
        self, ids: CorrelationIds, name: str, body: bytes
    ) -> Callable[[], Awaitable[Any]]:
        """Prepare a callback of the service of this name."""
        headers = {"X-Execution-Id": ids[0], "X-Correlation-Id": ids[1], "X-Event-Id": name}
        return lambda: self._client.post(f"/api/internal/callbacks/{name}", body, headers)

    async def _note(self, send: Callable[[], Awaitable[Any]]) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT):
                reply = await send()
        except ProblemResponseError as problem:
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


async def hot_correlation(scene: FaultRun, answers: ResponseStats) -> None:
    """One correlation whose status goes on changing after its wait has ended."""
    ids = _ids(scene, "hot")
    await answers.register(ids, _wait())
    await answers.send_all(
        answers.event(ids, f"hot-{number}", b'{"status": %d}' % number)
        for number in range(scene.times)
    )
    await answers.read(ids)


async def early_flood(scene: FaultRun, answers: ResponseStats) -> None:
    """One pair of ids that nobody has registered, by mistake the same for all events."""
    ids, body = _ids(scene, "early"), b'"%s"' % (b"x" * _EARLY)
    await answers.send_all(
        answers.event(ids, f"early-{number}", body) for number in range(scene.times)
    )
    await answers.register(ids, _wait())
    await answers.read(ids)


async def large_specs(scene: FaultRun, answers: ResponseStats) -> None:
    """Registrations of a megabyte, made of as many objects as that can hold."""
    for number in range(scene.times):
        # Each with something of its own: nobody may remember only one of them.
        body = {"items": [[]] * (_LARGE // 4), "number": number}
        call = {"url": "http://127.0.0.1:9/process", "body": body}
        await answers.register(
            _ids(scene, f"spec-{number}"), {"apiCall": call, "timeout": LONG_TIMEOUT}
        )


async def large_results(scene: FaultRun, answers: ResponseStats) -> None:
    """Register a wait for a hundred events of a megabyte and read it again and again."""
    ids, body = _ids(scene, "result"), b'"%s"' % (b"x" * (_LARGE - 2_000))
    names = [f"part-{number}" for number in range(_EVENTS)]
    await answers.register(
        ids, {"events": [{"name": name} for name in names], "timeout": LONG_TIMEOUT}
    )
    await answers.send_all(answers.named_event(ids, name, body) for name in names)
    for _ in range(scene.times):
        await answers.read(ids)


def _heavy_fault(
    attack: Callable[[FaultRun, ResponseStats], Awaitable[None]], what: str
) -> InjectFault:
    """Build a fault that runs this attack and measures a bystander meanwhile."""

    async def inject(scene: FaultRun) -> None:
        quiet = scene.seconds / 6
        before = await sample_service(scene.client, quiet)
        answers = ResponseStats(scene.client)
        async with watch_memory(scene.local.run_dir) as memory:
            async with bystander(scene.client) as during:
                at = scene.elapsed
                await attack(scene, answers)
            after = await sample_service(scene.client, quiet)
        scene.note(Disruption(f"{what.format(scene.times)}: {_describe(answers)}", at))
        check_bystander(scene, during, max(before, after, key=_median))
        scene.check(
            "what is too much is refused in words",
            not answers.bad,
            f"{answers.bad or 'no answer that is untrue'}",
        )
        scene.check(
            "every answer comes in time",
            answers.longest <= MAX_ANSWER_SECONDS,
            f"{answers.longest:.1f} s at most; the bound is {MAX_ANSWER_SECONDS:g} s",
        )
        scene.check("memory is bounded", *memory.within(MAX_MEMORY_GROWTH))

    return inject


def _median(served: BystanderStats) -> float:
    return served.median


def _describe(answers: ResponseStats) -> str:
    statuses = ", ".join(f"{count:,} by {status}" for status, count in answers.statuses.items())
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in answers.verdicts.items())
    return f"{statuses}; {verdicts or 'no verdicts'}"


def _ids(scene: FaultRun, name: str) -> CorrelationIds:
    run = scene.drill.plan.run
    return f"heavy-{run}-{name}", f"h-{run}-{name}"


def _wait() -> dict[str, Any]:
    return {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": LONG_TIMEOUT}


HEAVY_WAITS = (
    Fault(
        name="hot-correlation",
        summary="Ten thousand events for one correlation, long after its wait has ended.",
        inject=_heavy_fault(hot_correlation, "{:,} events for one correlation"),
        times=10_000,
    ),
    Fault(
        name="early-flood",
        summary="A thousand large events for one pair of ids, then its wait is registered.",
        inject=_heavy_fault(early_flood, "{:,} early events of 100 kB"),
        times=1_000,
    ),
    Fault(
        name="large-specs",
        summary="Registrations of a megabyte each.",
        inject=_heavy_fault(large_specs, "{:,} registrations of 1 MB"),
        times=50,
    ),
    Fault(
        name="large-results",
        summary="A wait that gathers a hundred events of a megabyte, read again and again.",
        inject=_heavy_fault(large_results, "100 events of 1 MB, read {:,} times"),
        times=10,
    ),
)
