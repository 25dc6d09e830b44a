"""What a scene of the dispatch demo is made of, and how it has to end."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.demo.dispatch.receiver import DemoDelivery

if TYPE_CHECKING:
    from tools.demo.dispatch.stage import DispatchScenarioRun

Play = Callable[["DispatchScenarioRun"], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class DispatchDemoOutcome:
    """How a scene ends, in facts: what is expected, and later what was seen."""

    facts: tuple[str, ...] = ()

    def sentence(self) -> str:
        """For people."""
        return "; ".join(self.facts) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchScenario:
    """Something that happens to events, and what has to come of it. `play` tells what came."""

    key: str = field(repr=False)
    title: str
    description: str
    facts: tuple[str, ...]
    play: Play

    @property
    def expected(self) -> DispatchDemoOutcome:
        """How it has to end."""
        return DispatchDemoOutcome(self.facts)


def group_history(deliveries: Sequence[DemoDelivery], subscriber: str, customer: str) -> str:
    """What came to a subscriber of one group, in the order it came: `1 ✗2 3`."""
    own = [one for one in deliveries if (one.subscriber, one.customer) == (subscriber, customer)]
    return " ".join(one.mark() for one in own) or "nothing"


def busiest_second(moments: Sequence[float]) -> int:
    """The most arrivals within any one second."""
    ordered = sorted(moments)
    most = first = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most
