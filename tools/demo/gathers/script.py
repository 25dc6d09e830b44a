"""The scenarios of the gather demo: what each resource does, and how the gather ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cli.shell.errors import InputError
from tools.demo.gathers.calls import Behaviour, behaviour_of, direct_behaviour_of
from tools.demo.gathers.resource import NOTES_PER_ANSWER
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

    def __str__(self) -> str:
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


DELAYS = (1_000, 2_000, 15_000)
TIMEOUT = 10_000
_NEAR = 250  # milliseconds in which a callback and a timeout may overtake each other

SCENARIOS = (
    GatherScenario(
        key="timeline",
        title="Two answer, one is too slow",
        description="Answers stream in as they come; at the timeout the rest is given up.",
        delays=DELAYS,
        timeout=TIMEOUT,
    ),
    GatherScenario(
        key="everyone",
        title="The caller waits for everyone",
        description="One answer with all notes, as soon as the slowest is there.",
        delays=(300, 600, 900),
        timeout=TIMEOUT,
        strategy=GatherStrategy.EVERYONE,
    ),
    GatherScenario(
        key="one-reject",
        title="One resource refuses",
        description="A 401 is an answer: no respondent, but no error either.",
        delays=(-1, 400, 800),
        timeout=TIMEOUT,
    ),
    GatherScenario(
        key="all-reject",
        title="All of them refuse",
        description="Nobody is left to wait for, so it ends at once.",
        delays=(-1, -1, -1),
        timeout=TIMEOUT,
    ),
    GatherScenario(
        key="closed",
        title="One closes the connection",
        description="A call that breaks is an error of that resource alone.",
        delays=(400, 800, 0),
        timeout=TIMEOUT,
        behaviours={"resource-3": Behaviour.CLOSE},
    ),
    GatherScenario(
        key="twice",
        title="One calls back twice",
        description="Its first callback counts, the second is a duplicate.",
        delays=(100, 200, 1_500),
        timeout=TIMEOUT,
        behaviours={"resource-1": Behaviour.TWICE},
    ),
)


def custom_scenario(delays: str | None, timeout: int | None, pace: float) -> GatherScenario:
    """Build a scenario from the options of the command line."""
    scenario = GatherScenario(
        key="yours",
        title="Your own",
        description="The gather that your options describe.",
        delays=DELAYS if delays is None else _parse(delays),
        timeout=TIMEOUT if timeout is None else timeout,
    ).at_pace(pace)
    for delay in scenario.delays:
        if abs(delay - scenario.timeout) < _NEAR:
            raise InputError(
                f"A delay of {delay} ms and a timeout of {scenario.timeout} ms could end "
                f"either way: keep {_NEAR} ms between them."
            )
    return scenario


def _parse(text: str) -> tuple[int, ...]:
    try:
        given = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"'{text}' are not delays: write numbers of milliseconds, for example 1000,2000,15000."
        ) from error
    if len(given) > len(NAMES):
        raise InputError(f"There are {len(NAMES)} resources, but {len(given)} delays.")
    if max(given) > 60_000:
        raise InputError("A delay is at most 60000 ms.")
    return (*given, *[0] * (len(NAMES) - len(given)))
