"""Callers that play scenarios, and try again with the same ids until they are answered.

Every answer of the product is counted; what it acknowledged goes to the ack log at once.
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
from tools.chaos.requests import REGISTER_PATH
from tools.chaos.scenario import (
    ChaosScenario,
    RequestChannel,
    ScenarioShape,
    ScenarioStep,
    make_scenario,
)
from tools.load.tasks import TaskSet

CALLER_TIMEOUTS = (4.0, 15.0, 15.0)  # seconds: some callers give up before the product does
MAX_REQUESTS = 64  # requests under way; the HTTP client has a hundred connections
MAX_SCENARIOS = 400
_RETRY_PAUSE = (0.05, 0.3)
TRANSIENT_STATUSES = {429, 503}


@dataclass(slots=True)
class CallerStats:
    """How the callers were answered."""

    acknowledged: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    """429 and 503, by status."""
    bare: int = 0
    """Refusals without Retry-After."""
    broken: int = 0
    """Connections refused or broken off."""
    impatient: int = 0
    """Requests whose caller did not wait for the answer."""
    unexpected: Counter[str] = field(default_factory=Counter)
    """Any other answer, by status and code."""


def status_and_code(problem: ProblemResponseError) -> str:
    """Describe a refusal by status and code, so that thousands of them can be counted."""
    return f"{problem.status} {problem.code}".strip()


class LoadGenerator:
    """A steady stream of scenarios, at most `rate` a second."""

    def __init__(
        self,
        client: Client,
        ack_log: AckLog,
        *,
        run: str,
        seed: int,
        rate: float,
        on_registered: Callable[[ChaosScenario], None] = lambda _: None,
    ) -> None:
        self.stats = CallerStats()
        self.excluded_shapes: set[ScenarioShape] = set()
        self._client = client
        self._ack_log = ack_log
        self._run, self._seed, self._rate = run, seed, rate
        self._on_registered = on_registered
        self._chance = random.Random(f"{seed}/callers")  # noqa: S311
        self._began = time.monotonic()
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self._room = asyncio.Semaphore(MAX_SCENARIOS)
        self._playing = TaskSet()
        self.under_way: Counter[ScenarioShape] = Counter()
        self._number = 0

    async def generate(self) -> None:
        """Begin scenario after scenario until cancelled; `finish` ends those under way."""
        due = time.monotonic()
        while True:
            await self._room.acquire()
            self._begin(self.next_scenario())
            due = max(due + 1 / self._rate, time.monotonic() - 1)  # no burst after a long halt
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def next_scenario(self) -> ChaosScenario:
        self._number += 1
        scenario = make_scenario(self._run, self._seed, self._number)
        return self.next_scenario() if scenario.shape in self.excluded_shapes else scenario

    async def finish(self, within: float) -> int:
        """Let the scenarios under way come to their end; return how many did not."""
        return await self._playing.finish(within)

    async def play(self, scenario: ChaosScenario) -> None:
        """Send all requests of a scenario, each until it is acknowledged."""
        for wave in scenario.waves:
            async with asyncio.TaskGroup() as group:
                for step in wave:
                    group.create_task(self.send_until_acknowledged(scenario, step))

    async def send_until_acknowledged(self, scenario: ChaosScenario, step: ScenarioStep) -> None:
        pause = await self._try(scenario, step)
        while pause is not None:
            await asyncio.sleep(pause)
            pause = await self._try(scenario, step)

    async def _try(self, scenario: ChaosScenario, step: ScenarioStep) -> float | None:
        """Send once; return the seconds until the next try, or None if it was acknowledged."""
        stats = self.stats
        try:
            async with self._slots, asyncio.timeout(self._chance.choice(CALLER_TIMEOUTS)):
                reply = await self._send(scenario, step)
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
            self._ack_log.note(make_ack(scenario, step, reply, time.monotonic() - self._began))
            stats.acknowledged += 1
            if step.channel is RequestChannel.REGISTER:
                self._on_registered(scenario)
            return None
        return self._chance.uniform(*_RETRY_PAUSE)

    async def _send(self, scenario: ChaosScenario, step: ScenarioStep) -> dict[str, object]:
        if step.channel is RequestChannel.REGISTER:
            reply = await self._client.post(REGISTER_PATH, scenario.registration())
        else:
            path, headers, body = scenario.event_request(step)
            reply = await self._client.post(path, body, headers)
        return dict(reply)

    def _begin(self, scenario: ChaosScenario) -> None:
        self.under_way[scenario.shape] += 1

        def ended(_: object) -> None:
            self.under_way[scenario.shape] -= 1
            self._room.release()

        self._playing.start(self.play(scenario)).add_done_callback(ended)
