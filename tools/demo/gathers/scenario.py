"""A scenario of the gather demo: what each resource does, and how the gather ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tools.demo.gathers.behaviour import Behaviour, behaviour_of, direct_behaviour_of
from tools.demo.gathers.notes import NOTES_PER_ANSWER
from tools.demo.scenario import Scenario

NAMES = ("resource-1", "resource-2", "resource-3")
_CALLS_BACK = {Behaviour.ANSWER: 1, Behaviour.TWICE: 2}
_STATUSES = {
    Behaviour.REJECT: "REJECTED",
    Behaviour.ERROR: "ERROR",
    Behaviour.CLOSE: "CONNECTION_CLOSED",
    Behaviour.HANG: "TIMEOUT",
    Behaviour.SILENT: "TIMEOUT",
}
_ERRORS = {"TIMEOUT", "CONNECTION_CLOSED", "ERROR"}


class GatherStrategy(StrEnum):
    """How the client gets the answers."""

    SSE = "SSE"
    EVERYONE = "WAIT_FOR_EVERYONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherDemoOutcome:
    """How a gather ends: the expected or the actual ending."""

    statuses: tuple[str, ...] = ()  # one for each resource
    respondents: int = 0
    errors: int = 0
    completeness: str = ""
    notes: int = 0
    special: tuple[str, ...] = ()  # callbacks that do not count, with their verdict

    def sentence(self) -> str:
        counts = f"respondents {self.respondents}, errors {self.errors}, notes {self.notes}"
        text = f"{self.completeness}: {', '.join(self.statuses)} ({counts})"
        return "; ".join([text, *self.special])


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherScenario(Scenario):
    """One gather, from the request to the last callback. Times are in milliseconds."""

    delays: tuple[int, ...]
    timeout: int
    strategy: GatherStrategy = GatherStrategy.SSE
    behaviours: Mapping[str, Behaviour] = field(default_factory=dict)

    def at_pace(self, pace: float) -> "GatherScenario":
        """Multiply delays and timeout by `pace`."""
        delays = tuple(round(delay * pace) if delay > 0 else delay for delay in self.delays)
        return replace(self, delays=delays, timeout=max(1, round(self.timeout * pace)))

    def behaviour(self, name: str) -> Behaviour:
        read = behaviour_of if self.strategy is GatherStrategy.SSE else direct_behaviour_of
        return self.behaviours.get(name) or read(self.delays[NAMES.index(name)])

    def request(self, patient_id: str) -> dict[str, Any]:
        """Build the body of the client's request."""
        return {
            "patientId": patient_id,
            "delays": ",".join(map(str, self.delays)),
            "timeoutMs": self.timeout,
            "strategy": self.strategy.value,
        }

    @property
    def rules(self) -> str:
        pairs = zip(NAMES, self.delays, strict=True)
        delays = ",".join(str(self.behaviours.get(name, delay)) for name, delay in pairs)
        return f"{self.strategy}, delays {delays}, timeout {self.timeout} ms"

    @property
    def callbacks(self) -> int:
        """How many callbacks the resources send."""
        if self.strategy is GatherStrategy.EVERYONE:
            return 0
        return sum(_CALLS_BACK.get(self.behaviour(name), 0) for name in NAMES)

    @property
    def duration_ms(self) -> int:
        """How long the scenario takes, up to the last callback."""
        return max(self._length(name) for name in NAMES)

    @property
    def expected(self) -> GatherDemoOutcome:
        statuses = tuple(self._status(name) for name in NAMES)
        respondents = statuses.count("ok")
        return GatherDemoOutcome(
            statuses=statuses,
            respondents=respondents,
            errors=sum(status in _ERRORS for status in statuses),
            completeness=_completeness(respondents),
            notes=respondents * NOTES_PER_ANSWER,
            special=self._special() if self.strategy is GatherStrategy.SSE else (),
        )

    def _status(self, name: str) -> str:
        behaviour = self.behaviour(name)
        if behaviour in _CALLS_BACK:
            return "ok" if self.delays[NAMES.index(name)] < self.timeout else "TIMEOUT"
        return _STATUSES[behaviour]

    def _length(self, name: str) -> int:
        if self._status(name) not in {"ok", "TIMEOUT"}:
            return 0
        calls_back = self.strategy is GatherStrategy.SSE and self.behaviour(name) in _CALLS_BACK
        delay = self.delays[NAMES.index(name)]
        return max(delay, 0) if calls_back or self._status(name) == "ok" else self.timeout

    def _special(self) -> tuple[str, ...]:
        found: list[tuple[int, str]] = []
        for name, delay in zip(NAMES, self.delays, strict=True):
            behaviour = self.behaviour(name)
            if behaviour in _CALLS_BACK and delay >= self.timeout:
                found += [(delay, f"{name} late")] * _CALLS_BACK[behaviour]
            elif behaviour is Behaviour.TWICE:
                found.append((delay, f"{name} duplicate"))
        return tuple(text for _, text in sorted(found))


def _completeness(respondents: int) -> str:
    if respondents == len(NAMES):
        return "full"
    return "partial" if respondents else "empty"
