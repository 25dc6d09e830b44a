"""A scenario of a demo: how it has to end, and how it ended."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

RunType = TypeVar("RunType")
PlayScript: TypeAlias = Callable[[RunType], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(ABC):
    """Something that happens to Muster, and the outcome that its rules demand.

    An outcome is a value that equals the same ending; `str` makes its sentence.
    """

    key: str = field(repr=False)
    title: str
    description: str

    @property
    @abstractmethod
    def expected(self) -> object: ...

    @property
    def rules(self) -> str:
        """The settings that decide the outcome."""
        return ""


class Facts(tuple[str, ...]):
    """The outcome of a script."""

    def __str__(self) -> str:
        return "; ".join(self) or "nothing"


@dataclass(frozen=True, kw_only=True)
class ScriptedScenario(Scenario, Generic[RunType]):
    """A script that returns facts, and the facts that it has to return."""

    facts: tuple[str, ...]
    play: PlayScript[RunType]

    @property
    def expected(self) -> Facts:
        return Facts(self.facts)


class Script(list[ScriptedScenario[RunType]]):
    """The scenarios of a demo whose scripts are functions."""

    def scenario(
        self, key: str, title: str, description: str, *facts: str
    ) -> Callable[[PlayScript[RunType]], PlayScript[RunType]]:
        """Add the decorated function, which has to return these facts."""

        def add(play: PlayScript[RunType]) -> PlayScript[RunType]:
            self.append(
                ScriptedScenario(
                    key=key, title=title, description=description, facts=facts, play=play
                )
            )
            return play

        return add


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """How a scenario ended; without an outcome it broke off, and the faults say why."""

    scenario: Scenario
    actual: object | None
    seconds: float
    faults: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.faults and self.actual == self.scenario.expected

    @property
    def actual_sentence(self) -> str:
        return "; ".join([*([] if self.actual is None else [str(self.actual)]), *self.faults])

    def document(self) -> dict[str, Any]:
        """Return the result as `--json` prints it."""
        return {
            "scene": self.scenario.key,
            "title": self.scenario.title,
            "expected": str(self.scenario.expected),
            "seen": self.actual_sentence,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            **self.details,
        }
