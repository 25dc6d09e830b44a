"""A scenario of the wait demo: one wait, the events that come for it, and how it ends."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tools.demo.scenario import Scenario

API = "api_response"
KAFKA = "kafka_event"
TOPIC = "process.completed"


class Via(StrEnum):
    """The path an event takes."""

    CALLBACK = "callback"
    KAFKA = "kafka"  # the same as a topic's event, handed in by HTTP
    TOPIC = "topic"  # a message on a real broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEvent:
    """An event of the external service, `at` seconds after the scenario began."""

    via: Via
    at: float
    data: Mapping[str, Any]
    verdict: str = "matched"
    reason: str = "expected"
    sent_as: str = ""  # the same name twice is the same event, sent again
    is_foreign: bool = False  # carries our correlation id, but another execution's id

    @property
    def expected_verdict(self) -> str:
        return verdict_text(self.via, self.verdict, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDemoOutcome:
    """How a wait ends: the expected or the actual ending."""

    status: str
    received: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    partial: bool = False
    warned: bool = False
    verdicts: tuple[str, ...] = ()

    def sentence(self) -> str:
        text = self.status + (", partial" if self.partial else "")
        text += ", with a warning" if self.warned else ""
        if self.received:
            text += f": {' + '.join(sorted(self.received))}"
        if self.lacking:
            text += f", without {' and '.join(sorted(self.lacking))}"
        special = [verdict for verdict in self.verdicts if not verdict.endswith("matched")]
        return "; ".join([text, *special])


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitScenario(Scenario):
    """One correlation, from its registration to its end."""

    config: Mapping[str, Any]
    ends: WaitDemoOutcome
    events: tuple[ScriptedEvent, ...] = ()
    early: tuple[ScriptedEvent, ...] = ()

    @property
    def calls_api(self) -> bool:
        return bool(self.config.get("apiCall", {}).get("enabled"))

    @property
    def publishes(self) -> bool:
        """Whether a completion event goes to a topic when the wait ends."""
        return bool(self.config.get("publishCompletion"))

    @property
    def rules(self) -> str:
        config, policy = self.config, self.config.get("onTimeout", "fail")
        return f"{config['aggregationStrategy']}, {config['timeout']:g} s, onTimeout {policy}"

    @property
    def expected(self) -> WaitDemoOutcome:
        order = [*self.early, *sorted(self.events, key=lambda event: event.at)]
        verdicts = tuple(event.expected_verdict for event in order)
        return dataclasses.replace(self.ends, verdicts=verdicts)


def verdict_text(via: Via, verdict: Any, reason: Any) -> str:
    return f"{via} {verdict}" if verdict == "matched" else f"{via} {verdict} ({reason})"
