"""One correlation that is far too large: too many events, too early, too big, too much to read.

What exceeds its bound may be refused in words; it must neither slow others down nor stop them.
"""

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from tools.chaos.fault import Fault, FaultRun
from tools.chaos.faults.processes import MEGABYTE, bounded_memory
from tools.chaos.latency import bystander, check_bystander, sample
from tools.chaos.probe import register_new
from tools.chaos.requests import (
    API_CALL,
    API_WAIT,
    CALLBACK_PATH,
    LONG_TIMEOUT,
    CorrelationKey,
    call_back,
    register,
)

MAX_MEMORY_GROWTH = 256 * MEGABYTE
MAX_ANSWER_SECONDS = 10.0
"""Seconds that a request about a wait that is too large may take."""
_MAX_CONCURRENT = 16
_TIMEOUT = 30.0
_LARGE = 1_000_000  # bytes; a body may have 1 MB
_EARLY = 100_000
_EVENTS = 100  # as many as a wait may expect
# Answers that ask to come back or blame the server, where neither is true; 0 is none at all.
_BAD_STATUSES = frozenset({0, 429, 500, 502, 503, 504})


class ResponseStats:
    """How many requests were answered: statuses, and the longest that one of them took."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self.statuses: Counter[int] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.longest = 0.0

    @property
    def bad(self) -> dict[int, int]:
        return {status: n for status, n in self.statuses.items() if status in _BAD_STATUSES}

    async def send_all(self, requests: Iterable[Callable[[], Awaitable[Any]]]) -> None:
        """Send all of them, some at once."""
        async with asyncio.TaskGroup() as group:
            for request in requests:
                await self._slots.acquire()
                group.create_task(self._send(request))

    async def register(self, key: CorrelationKey, data: Any = API_WAIT) -> None:
        await self.send_all([lambda: register(self._client, key, data)])

    async def read(self, key: CorrelationKey) -> None:
        await self.send_all([lambda: self._client.get(wait_path(*key))])

    def event(
        self, key: CorrelationKey, name: str, body: bytes, path: str = CALLBACK_PATH
    ) -> Callable[[], Awaitable[Any]]:
        """Prepare a callback."""
        return functools.partial(call_back, self._client, key, name, body, path=path)

    async def _send(self, request: Callable[[], Awaitable[Any]]) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT):
                reply = await request()
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

    def __str__(self) -> str:
        statuses = ", ".join(f"{count:,} by {status}" for status, count in self.statuses.items())
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.verdicts.items())
        return f"{statuses}; {verdicts or 'no verdicts'}"


Attack: TypeAlias = Callable[[FaultRun, ResponseStats], Awaitable[None]]


def heavy_fault(name: str, summary: str, *, what: str, times: int) -> Callable[[Attack], Fault]:
    """Make the decorated attack a fault that measures a bystander meanwhile."""

    def make(attack: Attack) -> Fault:
        async def inject(run: FaultRun) -> None:
            quiet, answers = run.seconds / 6, ResponseStats(run.client)
            request = functools.partial(register_new, run.client)
            before = await sample(request, quiet)
            async with bounded_memory(run, MAX_MEMORY_GROWTH):
                async with bystander(request) as during:
                    at = run.elapsed
                    await attack(run, answers)
                after = await sample(request, quiet)
            run.note(f"{what.format(run.times)}: {answers}", at)
            check_bystander(run, during, before, after)
            bad = answers.bad or "no wrong answer"
            run.check("what is too much is refused with its reason", not answers.bad, f"{bad}")
            run.check(
                "every answer comes in time",
                answers.longest <= MAX_ANSWER_SECONDS,
                f"{answers.longest:.1f} s at most; the bound is {MAX_ANSWER_SECONDS:g} s",
            )

        return Fault(name, summary, inject, times=times)

    return make


@heavy_fault(
    "hot-correlation",
    "Ten thousand events for one correlation, long after its wait has ended.",
    what="{:,} events for one correlation",
    times=10_000,
)
async def hot_correlation(run: FaultRun, answers: ResponseStats) -> None:
    """Send events for one correlation long after its wait has ended."""
    key = _key(run, "hot")
    await answers.register(key)
    await answers.send_all(
        answers.event(key, f"hot-{number}", b'{"status": %d}' % number)
        for number in range(run.times)
    )
    await answers.read(key)


@heavy_fault(
    "early-flood",
    "A thousand large events for one pair of ids, then its wait is registered.",
    what="{:,} early events of 100 kB",
    times=1_000,
)
async def early_flood(run: FaultRun, answers: ResponseStats) -> None:
    """Send events for one pair of ids that nobody has registered."""
    key, body = _key(run, "early"), b'"%s"' % (b"x" * _EARLY)
    await answers.send_all(
        answers.event(key, f"early-{number}", body) for number in range(run.times)
    )
    await answers.register(key)
    await answers.read(key)


@heavy_fault(
    "large-specs",
    "Registrations of a megabyte each.",
    what="{:,} registrations of 1 MB",
    times=50,
)
async def large_specs(run: FaultRun, answers: ResponseStats) -> None:
    """Register waits of a megabyte, made of as many objects as that can hold."""
    for number in range(run.times):
        # Each differs from the others: a cache must not make it cheap.
        body = {"items": [[]] * (_LARGE // 4), "number": number}
        data = {"apiCall": {**API_CALL, "body": body}, "timeout": LONG_TIMEOUT}
        await answers.register(_key(run, f"spec-{number}"), data)


@heavy_fault(
    "large-results",
    "A wait that gathers a hundred events of a megabyte, read again and again.",
    what="100 events of 1 MB, read {:,} times",
    times=10,
)
async def large_results(run: FaultRun, answers: ResponseStats) -> None:
    """Register a wait for a hundred events of a megabyte and read it again and again."""
    key, body = _key(run, "result"), b'"%s"' % (b"x" * (_LARGE - 2_000))
    names = [f"part-{number}" for number in range(_EVENTS)]
    events = [{"name": name} for name in names]
    await answers.register(key, {"events": events, "timeout": LONG_TIMEOUT})
    await answers.send_all(
        answers.event(key, name, body, f"/api/internal/callbacks/{name}") for name in names
    )
    for _ in range(run.times):
        await answers.read(key)


def _key(run: FaultRun, name: str) -> CorrelationKey:
    return f"heavy-{run.drill.plan.run}-{name}", f"h-{run.drill.plan.run}-{name}"
