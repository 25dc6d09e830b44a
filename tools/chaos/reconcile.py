"""Do the callers, Postgres and the receiver agree? Pure: three accounts in, one verdict out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tools.chaos.ack_log import Ack
from tools.chaos.scenario import RequestChannel, ScenarioShape

CorrelationKey: TypeAlias = tuple[str, str]
ENDED = "ended"
# An event told "matched" was told that it counts.
MATCHED = "matched"
RECEIVED = "received"


class Violation(StrEnum):
    """What must never be found."""

    LOST = "lost"
    """Acknowledged, and not in Postgres; or in Postgres, and never shown to the receiver."""
    TWICE = "twice"
    """Ended, counted or shown more than once."""
    CONTAMINATED = "contaminated"
    """One wait holds or shows what belongs to another."""
    UNFINISHED = "unfinished"
    """All it needed was acknowledged, and it still waits."""
    WRONG = "wrong"
    """It ended otherwise than its events allow, or an event got an impossible verdict."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One flaw in one correlation."""

    violation: Violation
    correlation_key: CorrelationKey
    what: str

    def __str__(self) -> str:
        return f"{self.violation}: {':'.join(self.correlation_key)}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEvent:
    """An event as it is stored or shown; `of` and `id` are what its payload says of itself."""

    number: int
    kind: str
    event_id: str
    of: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCorrelation:
    """What Postgres has of one correlation; without a `status` there is no row."""

    status: str | None = None
    end_number: int | None = None
    resumed: bool = False
    counted: tuple[str, ...] = ()
    lines: tuple[ObservedEvent, ...] = ()
    parked: tuple[ObservedEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The result. `floor` guards against a run that is clean because nothing happened."""

    acknowledged: int
    correlations: int
    completed: int
    watched: int
    floor: int
    verdicts: Mapping[str, int]
    findings: Sequence[Finding] = field(default_factory=tuple)

    @property
    def clean(self) -> bool:
        """Nothing was found, and enough happened to find it in."""
        return not self.findings and self.acknowledged >= self.floor

    def count(self, flaw: Violation) -> int:
        """How many flaws of one kind."""
        return sum(finding.violation is flaw for finding in self.findings)


def reconcile(
    acks: Iterable[Ack],
    kept: Mapping[CorrelationKey, StoredCorrelation],
    observed: Mapping[CorrelationKey, Sequence[ObservedEvent]],
    *,
    floor: int,
) -> Reconciliation:
    """Hold what was promised against what was kept and what was shown."""
    promised: dict[CorrelationKey, list[Ack]] = defaultdict(list)
    for ack in acks:
        promised[ack.correlation_key].append(ack)
    findings: list[Finding] = []
    for place, promises in promised.items():
        row = kept.get(place, StoredCorrelation())
        findings += _check_correlation(place, promises, row)
        if place in observed:
            findings += _check_stream(place, row, observed[place])
    return Reconciliation(
        acknowledged=sum(map(len, promised.values())),
        correlations=len(promised),
        completed=sum(row.status == "completed" for row in kept.values()),
        watched=len(observed),
        floor=floor,
        verdicts=Counter(a.verdict for some in promised.values() for a in some if a.verdict),
        findings=findings,
    )


def must_end(promises: Sequence[Ack]) -> bool:
    """Whether what was acknowledged so far is all that this correlation waits for."""
    doors = {ack.door for ack in promises}
    match promises[0].shape:
        case ScenarioShape.ORPHAN:
            return False
        case ScenarioShape.UNANSWERED:
            return RequestChannel.REGISTER in doors
        case ScenarioShape.ANY:
            return RequestChannel.REGISTER in doors and len(doors) > 1
        case ScenarioShape.ALL:
            return len(doors) == len(RequestChannel)


def sender_id(event_id: str) -> str:
    """Return the sender's event id, without the prefix that Muster adds."""
    return event_id.rpartition("/")[2]


def _check_correlation(
    place: CorrelationKey, promises: Sequence[Ack], row: StoredCorrelation
) -> Iterator[Finding]:
    checks = (_lost, _twice, _ending, _verdicts)
    for flaw, what in (pair for check in checks for pair in check(promises, row)):
        yield Finding(flaw, place, what)
    for line in (*row.lines, *row.parked):
        yield from _check_foreign_data(place, line)


Violations: TypeAlias = Iterator[tuple[Violation, str]]


def _lost(promises: Sequence[Ack], row: StoredCorrelation) -> Violations:
    logged = {sender_id(line.event_id): line.kind for line in row.lines}
    parked = {sender_id(line.event_id) for line in row.parked}
    counted = set(map(sender_id, row.counted))
    if row.status is None and any(ack.door is RequestChannel.REGISTER for ack in promises):
        yield Violation.LOST, "its registration was acknowledged and there is no row"
    for ack in promises:
        if ack.door is RequestChannel.REGISTER:
            continue
        if ack.verdict == MATCHED and ack.event_id not in counted:
            yield Violation.LOST, f"{ack.event_id} was told that it counts and does not"
        elif ack.event_id not in logged and ack.event_id not in parked:
            yield (
                Violation.LOST,
                f"{ack.event_id} ({ack.verdict}) is neither in the log nor the inbox",
            )


def _twice(promises: Sequence[Ack], row: StoredCorrelation) -> Violations:
    numbers = Counter(line.number for line in row.lines)
    if row.end_number is not None:
        numbers[row.end_number] += 1
    for number, times in numbers.items():
        if times > 1:
            yield Violation.TWICE, f"{times} things have the number {number} in its log"
    for event_id, times in Counter(row.counted).items():
        if times > 1:
            yield Violation.TWICE, f"{event_id} counts {times} times"
    received = [line for line in row.lines if line.kind == RECEIVED]
    if len(received) > len(row.counted):
        yield (
            Violation.TWICE,
            f"{len(received)} events were received where {len(row.counted)} count",
        )


def _ending(promises: Sequence[Ack], row: StoredCorrelation) -> Violations:
    expected = "timeout" if promises[0].shape is ScenarioShape.UNANSWERED else "completed"
    if row.status in (None, "waiting"):
        if must_end(promises) and row.status is not None:
            yield Violation.UNFINISHED, f"it has all it needs to be {expected}"
    elif row.status != expected:
        yield Violation.WRONG, f"it ended as {row.status}, not as {expected}"
    elif row.resumed != (expected == "completed"):
        yield (
            Violation.WRONG,
            f"it is {expected}, yet it was {'' if row.resumed else 'not '}resumed",
        )


def _verdicts(promises: Sequence[Ack], row: StoredCorrelation) -> Violations:
    for ack in promises:
        if ack.verdict == "rejected" and ack.reason != "execution_mismatch":
            yield Violation.WRONG, f"{ack.event_id} was rejected: {ack.reason}"


def _check_foreign_data(place: CorrelationKey, line: ObservedEvent) -> Iterator[Finding]:
    if line.of is not None and line.of != ":".join(place):
        what = f"{line.event_id} carries the data of {line.of}"
        yield Finding(Violation.CONTAMINATED, place, what)
    elif line.id is not None and line.id != sender_id(line.event_id):
        what = f"{line.event_id} carries the data of {line.id}"
        yield Finding(Violation.CONTAMINATED, place, what)


def _check_stream(
    place: CorrelationKey, row: StoredCorrelation, observed: Sequence[ObservedEvent]
) -> Iterator[Finding]:
    """Check that a reader saw each log line once, in order, and then the end."""
    for number, times in Counter(line.number for line in observed).items():
        if times > 1:
            yield Finding(Violation.TWICE, place, f"the receiver was shown number {number} again")
    ends = [line for line in observed if line.kind == ENDED]
    if len(ends) > 1:
        yield Finding(Violation.TWICE, place, f"the receiver saw it end {len(ends)} times")
    if row.end_number is not None:
        story = {line.number for line in row.lines if line.number < row.end_number}
        missed = (story | {row.end_number}) - {line.number for line in observed}
        if missed:
            numbers = ", ".join(map(str, sorted(missed)))
            yield Finding(Violation.LOST, place, f"the receiver never saw number {numbers}")
    for line in observed:
        yield from _check_foreign_data(place, line)
