"""A scenario of the dispatch demo: a script that returns facts, and the facts it has to return."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.demo.scenario import Scenario

if TYPE_CHECKING:
    from tools.demo.dispatch.run import DispatchRun

PlayScript = Callable[["DispatchRun"], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Facts:
    """The outcome of a dispatch scenario."""

    facts: tuple[str, ...]

    def sentence(self) -> str:
        return "; ".join(self.facts) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchScenario(Scenario):
    """Something that happens to events on their way."""

    facts: tuple[str, ...]
    play: PlayScript

    @property
    def expected(self) -> Facts:
        return Facts(self.facts)
