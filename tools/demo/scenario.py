"""A scenario of a demo: how it has to end, and how it ended."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class ScenarioOutcome(Protocol):
    """How a scenario ends. Outcomes that are equal are the same ending."""

    def sentence(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(ABC):
    """Something that happens to Muster, and the outcome that its rules demand."""

    key: str = field(repr=False)
    title: str
    description: str

    @property
    @abstractmethod
    def expected(self) -> ScenarioOutcome: ...

    @property
    def rules(self) -> str:
        """The settings that decide the outcome."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """How a scenario ended; without an outcome it broke off, and the faults say why."""

    scenario: Scenario
    actual: ScenarioOutcome | None
    seconds: float
    faults: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.faults and self.actual == self.scenario.expected

    def actual_sentence(self) -> str:
        return "; ".join([*([self.actual.sentence()] if self.actual else []), *self.faults])

    def document(self) -> dict[str, Any]:
        """Return the result as `--json` prints it."""
        return {
            "scene": self.scenario.key,
            "title": self.scenario.title,
            "expected": self.scenario.expected.sentence(),
            "seen": self.actual_sentence(),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            **self.details,
        }
