"""What callers do to one correlation: written from a seed, so that a run can be repeated.

Everything a real sender does is in it: events before their wait, both at once, the same event
twice, a second event of the same kind, ids in headers or in the body, two executions under one
correlation id, waits that nobody answers, and events that nobody ever waits for.
"""

import json
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tools.chaos import requests
from tools.chaos.requests import CorrelationKey


class RequestChannel(StrEnum):
    """Where a request goes."""

    REGISTER = "register"
    API = "api"
    KAFKA = "kafka"


class ScenarioShape(StrEnum):
    """How a scenario must end once all of it was acknowledged."""

    ALL = "all"
    """Both events come: completed."""
    ANY = "any"
    """The first event completes it, the second is late."""
    UNANSWERED = "unanswered"
    """The Kafka event never comes: the timer ends it."""
    ORPHAN = "orphan"
    """Nobody registers: its events stay in the inbox."""


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One request. The same step sent again is the same event."""

    channel: RequestChannel
    event_id: str = ""
    ids_in_body: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosScenario:
    """One correlation and its requests, wave after wave; those of one wave go out at once."""

    execution_id: str
    correlation_id: str
    shape: ScenarioShape
    waves: tuple[tuple[ScenarioStep, ...], ...]

    @property
    def correlation_key(self) -> CorrelationKey:
        return self.execution_id, self.correlation_id

    @property
    def scoped_id(self) -> str:
        """Both ids, as the product shows them."""
        return f"{self.execution_id}:{self.correlation_id}"

    def registration(self) -> dict[str, Any]:
        """Build the body of the registration."""
        is_short = self.shape is ScenarioShape.UNANSWERED
        data = {
            "apiCall": requests.API_CALL,
            "kafkaEvent": {"topic": requests.TOPIC},
            "aggregationStrategy": "any" if self.shape is ScenarioShape.ANY else "all",
            "timeout": requests.SHORT_TIMEOUT if is_short else requests.LONG_TIMEOUT,
        }
        return requests.registration(self.correlation_key, data)

    def payload(self, step: ScenarioStep) -> dict[str, Any]:
        """Build the event's data, which names its scenario so that a mix-up is found."""
        return {"of": self.scoped_id, "id": step.event_id}

    def event_request(self, step: ScenarioStep) -> tuple[str, dict[str, str], bytes]:
        """Build path, headers and body of an event."""
        is_callback = step.channel is RequestChannel.API
        path = requests.CALLBACK_PATH if is_callback else f"/api/internal/events/{requests.TOPIC}"
        headers, body = {"X-Event-Id": step.event_id}, self.payload(step)
        if step.ids_in_body:
            body |= {"execution_id": self.execution_id, "correlation_id": self.correlation_id}
        else:
            headers = requests.event_headers(self.correlation_key, step.event_id)
        return path, headers, json.dumps(body).encode()


_SHAPES = {
    ScenarioShape.ALL: 0.76,
    ScenarioShape.ANY: 0.10,
    ScenarioShape.UNANSWERED: 0.08,
    ScenarioShape.ORPHAN: 0.06,
}
_REGISTER = ScenarioStep(RequestChannel.REGISTER)


def make_scenario(run: str, seed: int, number: int) -> ChaosScenario:
    """Make the scenario of this number; the same seed makes the same scenario."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311
    shape = rng.choices(list(_SHAPES), list(_SHAPES.values()))[0]
    # Some neighbours share their correlation id: only the execution tells them apart.
    pair = number // 2
    namesakes = random.Random(f"{seed}/pair/{pair}").random() < 0.2  # noqa: S311
    return ChaosScenario(
        execution_id=f"chaos-{run}-{number}",
        correlation_id=f"c-{run}-pair-{pair}" if namesakes else f"c-{run}-{number}",
        shape=shape,
        waves=_waves(_requests(f"{run}-{number}", shape, rng), rng),
    )


def _requests(name: str, shape: ScenarioShape, rng: random.Random) -> list[ScenarioStep]:
    """Choose the requests of a scenario, in the order in which each is first tried."""
    events = [_event(name, RequestChannel.API, "a", rng)]
    if shape is not ScenarioShape.UNANSWERED:
        events.append(_event(name, RequestChannel.KAFKA, "k", rng))
    rng.shuffle(events)
    if rng.random() < 0.15:
        events.append(_event(name, rng.choice([RequestChannel.API, events[-1].channel]), "x", rng))
    steps = list(events)
    if shape is not ScenarioShape.ORPHAN:
        place = 0 if rng.random() < 0.6 else rng.randint(0, len(steps))
        steps.insert(place, _REGISTER)
    if rng.random() < 0.2:
        again = rng.choice(steps)
        steps.insert(rng.randint(steps.index(again) + 1, len(steps)), again)
    return steps


def _event(name: str, channel: RequestChannel, mark: str, rng: random.Random) -> ScenarioStep:
    return ScenarioStep(channel, f"{name}-{mark}", ids_in_body=rng.random() < 0.3)


def _waves(steps: list[ScenarioStep], rng: random.Random) -> tuple[tuple[ScenarioStep, ...], ...]:
    waves: list[tuple[ScenarioStep, ...]] = []
    for step in steps:
        if waves and rng.random() < 0.3:
            waves[-1] = (*waves[-1], step)
        else:
            waves.append((step,))
    return tuple(waves)
