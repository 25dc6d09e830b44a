"""What a scene of the demo is made of. Pure data; the stage plays it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

API = "api_response"
KAFKA = "kafka_event"
TOPIC = "process.completed"


class Via(StrEnum):
    """The path an event takes."""

    CALLBACK = "callback"
    KAFKA = "kafka"  # the same as a topic's event, handed in by HTTP
    TOPIC = "topic"  # a record on a real broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEvent:
    """An event of the external service, `at` seconds after the scene began."""

    via: Via
    at: float
    data: Mapping[str, Any]
    verdict: str = "matched"
    reason: str = "expected"
    sent_as: str = ""  # the same name twice is the same event, sent again
    is_foreign: bool = False  # carries our correlation id, but another execution's id

    @property
    def expected_verdict(self) -> str:
        """What Muster should say to it."""
        return verdict_text(self.via, self.verdict, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDemoOutcome:
    """How a scene ends: what is expected, and later what was seen."""

    status: str
    received: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    partial: bool = False
    warned: bool = False
    verdicts: tuple[str, ...] = ()

    def sentence(self) -> str:
        """For people."""
        text = self.status + (", partial" if self.partial else "")
        text += ", with a warning" if self.warned else ""
        if self.received:
            text += f": {' + '.join(sorted(self.received))}"
        if self.lacking:
            text += f", without {' and '.join(sorted(self.lacking))}"
        special = [verdict for verdict in self.verdicts if not verdict.endswith("matched")]
        return "; ".join([text, *special])


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitScenario:
    """One correlation, from its registration to its end."""

    key: str = field(repr=False)
    title: str
    description: str
    config: Mapping[str, Any]
    ends: WaitDemoOutcome
    arrivals: tuple[ScriptedEvent, ...] = ()
    early: tuple[ScriptedEvent, ...] = ()

    @property
    def calls_api(self) -> bool:
        """Whether the workflow calls the external service at all."""
        return bool(self.config.get("apiCall", {}).get("enabled"))

    @property
    def publishes(self) -> bool:
        """Whether the end of its wait is told to a topic."""
        return bool(self.config.get("publishCompletion"))

    @property
    def expected(self) -> WaitDemoOutcome:
        """The ending, with the verdicts that the arrivals should get in their order."""
        order = [*self.early, *sorted(self.arrivals, key=lambda arrival: arrival.at)]
        return WaitDemoOutcome(
            status=self.ends.status,
            received=self.ends.received,
            lacking=self.ends.lacking,
            partial=self.ends.partial,
            warned=self.ends.warned,
            verdicts=tuple(arrival.expected_verdict for arrival in order),
        )


def verdict_text(via: Via, verdict: Any, reason: Any) -> str:
    """A verdict as the summary shows it."""
    return f"{via} {verdict}" if verdict == "matched" else f"{via} {verdict} ({reason})"
