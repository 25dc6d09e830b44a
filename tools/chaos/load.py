"""Callers that insist: they play stories, and try again with the same ids until they are answered.

Every answer of the product is counted; what it acknowledged goes to the ledger at once.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemResponseError
from tools.chaos.ack_log import AckLog, make_ack
from tools.chaos.scenario import (
    ChaosScenario,
    RequestChannel,
    ScenarioShape,
    ScenarioStep,
    make_scenario,
)

CALLER_TIMEOUTS = (4.0, 15.0, 15.0)  # seconds: some callers give up before the product does
MAX_REQUESTS = 64  # requests under way; the HTTP client has a hundred connections
MAX_SCENARIOS = 400
_RETRY_PAUSE = (0.05, 0.3)
TRANSIENT_STATUSES = {429, 503}


@dataclass(slots=True)
class CallerStats:
    """What the callers met."""

    acknowledged: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    """429 and 503, by status: promises not made."""
    bare: int = 0
    """Refusals that did not say when to come back."""
    broken: int = 0
    """Connections refused or broken off."""
    impatient: int = 0
    """Answers that a caller did not wait for."""
    unexpected: Counter[str] = field(default_factory=Counter)
    """Any other answer, by status and code."""


def status_and_code(problem: ProblemResponseError) -> str:
    """Describe a refusal by status and code, so that thousands of them can be counted."""
    return f"{problem.status} {problem.code}".strip()


class LoadGenerator:
    """A steady stream of stories, at most `rate` a second, until it is told to stop."""

    def __init__(
        self,
        client: Client,
        ledger: AckLog,
        *,
        run: str,
        seed: int,
        rate: float,
        on_registered: Callable[[ChaosScenario], None] = lambda _: None,
    ) -> None:
        self.stats = CallerStats()
        self.excluded_shapes: set[ScenarioShape] = set()
        """Stories that are left out."""
        self._client = client
        self._ledger = ledger
        self._run, self._seed, self._rate = run, seed, rate
        self._on_registered = on_registered
        self._chance = random.Random(f"{seed}/callers")  # noqa: S311
        self._began = time.monotonic()
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self._room = asyncio.Semaphore(MAX_SCENARIOS)
        self._stories: set[asyncio.Task[None]] = set()
        self.under_way: Counter[ScenarioShape] = Counter()
        self._mistakes: list[Exception] = []
        self._number = 0

    async def generate(self) -> None:
        """Begin story after story; cancel this to stop, then `finish` those under way."""
        due = time.monotonic()
        while True:
            await self._room.acquire()
            self._begin(self.next_scenario())
            due = max(due + 1 / self._rate, time.monotonic() - 1)  # no burst after a long halt
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def next_scenario(self) -> ChaosScenario:
        """One that was not told before."""
        self._number += 1
        story = make_scenario(self._run, self._seed, self._number)
        return self.next_scenario() if story.shape in self.excluded_shapes else story

    async def finish(self, within: float) -> int:
        """Let the stories under way come to their end; how many did not."""
        pending = set(self._stories)
        if pending:
            _, pending = await asyncio.wait(pending, timeout=within)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if self._mistakes:
            raise ExceptionGroup("the load has a mistake of its own", self._mistakes)
        return len(pending)

    async def play(self, story: ChaosScenario) -> None:
        """Send everything a story has to say, and insist on each answer."""
        for wave in story.waves:
            async with asyncio.TaskGroup() as group:
                for step in wave:
                    group.create_task(self.send_until_acknowledged(story, step))

    async def send_until_acknowledged(self, story: ChaosScenario, step: ScenarioStep) -> None:
        """One request, again and again until it is acknowledged."""
        pause = await self._try(story, step)
        while pause is not None:
            await asyncio.sleep(pause)
            pause = await self._try(story, step)

    async def _try(self, story: ChaosScenario, step: ScenarioStep) -> float | None:
        """None once it was acknowledged, else the seconds until the next try."""
        stats = self.stats
        try:
            async with self._slots, asyncio.timeout(self._chance.choice(CALLER_TIMEOUTS)):
                reply = await self._send(story, step)
        except TimeoutError:
            stats.impatient += 1
        except UnreachableError:
            stats.broken += 1
        except ProblemResponseError as problem:
            if problem.status not in TRANSIENT_STATUSES:
                stats.unexpected[status_and_code(problem)] += 1
            else:
                stats.refused[problem.status] += 1
                after = problem.document.get("retryAfter")
                stats.bare += after is None
                return float(after or 0) + self._chance.uniform(*_RETRY_PAUSE)
        else:
            self._ledger.note(make_ack(story, step, reply, time.monotonic() - self._began))
            stats.acknowledged += 1
            if step.door is RequestChannel.REGISTER:
                self._on_registered(story)
            return None
        return self._chance.uniform(*_RETRY_PAUSE)

    async def _send(self, story: ChaosScenario, step: ScenarioStep) -> dict[str, object]:
        if step.door is RequestChannel.REGISTER:
            reply = await self._client.post("/api/wait-states", story.registration())
        else:
            path, headers, body = story.event_request(step)
            reply = await self._client.post(path, body, headers)
        return dict(reply)

    def _begin(self, story: ChaosScenario) -> None:
        task = asyncio.create_task(self.play(story))
        self._stories.add(task)
        self.under_way[story.shape] += 1
        task.add_done_callback(self._ended)
        task.add_done_callback(lambda _: self.under_way.subtract([story.shape]))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._stories.discard(task)
        self._room.release()
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._mistakes.append(error)
