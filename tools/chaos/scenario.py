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

SERVICE = "external-service"
TOPIC = "process.completed"
LONG, SHORT = 900.0, 1.5  # seconds until a wait gives up


class Door(StrEnum):
    """Where a request goes."""

    REGISTER = "register"
    API = "api"
    KAFKA = "kafka"


class Shape(StrEnum):
    """How a story must end once all of it was acknowledged."""

    ALL = "all"
    """Both events come: completed."""
    ANY = "any"
    """The first event completes it, the second is late."""
    UNANSWERED = "unanswered"
    """The Kafka event never comes: the timer ends it."""
    ORPHAN = "orphan"
    """Nobody registers: its events stay in the inbox."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request. The same step sent again is the same event."""

    door: Door
    event_id: str = ""
    ids_in_body: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One correlation and its requests, wave after wave; those of one wave go out at once."""

    execution_id: str
    correlation_id: str
    shape: Shape
    waves: tuple[tuple[Step, ...], ...]

    @property
    def scoped_id(self) -> str:
        """Both ids, as the product shows them."""
        return f"{self.execution_id}:{self.correlation_id}"

    def registration(self) -> dict[str, Any]:
        """The body of its registration."""
        return {
            "executionId": self.execution_id,
            "correlationId": self.correlation_id,
            "nodeId": "wait",
            "data": {
                "apiCall": {"url": "http://127.0.0.1:9/process"},
                "kafkaEvent": {"topic": TOPIC},
                "aggregationStrategy": "any" if self.shape is Shape.ANY else "all",
                "timeout": SHORT if self.shape is Shape.UNANSWERED else LONG,
            },
        }

    def payload(self, step: Step) -> dict[str, Any]:
        """What the event carries: whose it is, so that a stranger's wait cannot hide it."""
        return {"of": self.scoped_id, "id": step.event_id}

    def event_request(self, step: Step) -> tuple[str, dict[str, str], bytes]:
        """Path, headers and body of an event."""
        origin = f"callbacks/{SERVICE}" if step.door is Door.API else f"events/{TOPIC}"
        headers, body = {"X-Event-Id": step.event_id}, self.payload(step)
        if step.ids_in_body:
            body |= {"execution_id": self.execution_id, "correlation_id": self.correlation_id}
        else:
            headers["X-Execution-Id"] = self.execution_id
            headers["X-Correlation-Id"] = self.correlation_id
        return f"/api/internal/{origin}", headers, json.dumps(body).encode()


_SHAPES = {Shape.ALL: 0.76, Shape.ANY: 0.10, Shape.UNANSWERED: 0.08, Shape.ORPHAN: 0.06}
_REGISTER = Step(Door.REGISTER)


def write_story(run: str, seed: int, number: int) -> Story:
    """The story of this number; the same for the same seed."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311
    shape = chance.choices(list(_SHAPES), list(_SHAPES.values()))[0]
    # Some neighbours share their correlation id: only the execution tells them apart.
    pair = number // 2
    namesakes = random.Random(f"{seed}/pair/{pair}").random() < 0.2  # noqa: S311
    return Story(
        execution_id=f"chaos-{run}-{number}",
        correlation_id=f"c-{run}-pair-{pair}" if namesakes else f"c-{run}-{number}",
        shape=shape,
        waves=_waves(_requests(f"{run}-{number}", shape, chance), chance),
    )


def _requests(name: str, shape: Shape, chance: random.Random) -> list[Step]:
    """Every request of a story, in the order in which it is first tried."""
    events = [_event(name, Door.API, "a", chance)]
    if shape is not Shape.UNANSWERED:
        events.append(_event(name, Door.KAFKA, "k", chance))
    chance.shuffle(events)
    if chance.random() < 0.15:
        events.append(_event(name, chance.choice([Door.API, events[-1].door]), "x", chance))
    steps = list(events)
    if shape is not Shape.ORPHAN:
        place = 0 if chance.random() < 0.6 else chance.randint(0, len(steps))
        steps.insert(place, _REGISTER)
    if chance.random() < 0.2:
        again = chance.choice(steps)
        steps.insert(chance.randint(steps.index(again) + 1, len(steps)), again)
    return steps


def _event(name: str, door: Door, mark: str, chance: random.Random) -> Step:
    return Step(door, f"{name}-{mark}", ids_in_body=chance.random() < 0.3)


def _waves(steps: list[Step], chance: random.Random) -> tuple[tuple[Step, ...], ...]:
    waves: list[tuple[Step, ...]] = []
    for step in steps:
        if waves and chance.random() < 0.3:
            waves[-1] = (*waves[-1], step)
        else:
            waves.append((step,))
    return tuple(waves)
