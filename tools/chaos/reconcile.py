"""Compares what was acknowledged with what is stored and what streams showed. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tools.chaos.ack_log import Ack
from tools.chaos.requests import CorrelationKey
from tools.chaos.scenario import RequestChannel, ScenarioShape

ENDED = "ended"


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
    """One violation in one correlation."""

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
    """What is stored of one correlation; without a `status` there is no row."""

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
        """Whether nothing was found, and enough happened to find something."""
        return not self.findings and self.acknowledged >= self.floor

    def count(self, violation: Violation) -> int:
        return sum(finding.violation is violation for finding in self.findings)


def by_correlation(acks: Iterable[Ack]) -> dict[CorrelationKey, list[Ack]]:
    """Sort acks by the correlation that they belong to."""
    sorted_acks: dict[CorrelationKey, list[Ack]] = defaultdict(list)
    for ack in acks:
        sorted_acks[ack.correlation_key].append(ack)
    return sorted_acks


def reconcile(
    acks: Sequence[Ack],
    stored: Mapping[CorrelationKey, StoredCorrelation],
    observed: Mapping[CorrelationKey, Sequence[ObservedEvent]],
    *,
    floor: int,
) -> Reconciliation:
    """Compare acks with the rows and the streams of their correlations."""
    sorted_acks = by_correlation(acks)
    findings: list[Finding] = []
    for key, own in sorted_acks.items():
        row = stored.get(key, StoredCorrelation())
        shown = observed.get(key, ())
        checks = [check(own, row) for check in _CHECKS]
        if key in observed:
            checks.append(_check_stream(row, shown))
        lines = (*row.lines, *row.parked, *shown)
        checks.append(_check_foreign_data(":".join(key), lines))
        findings += [Finding(violation, key, what) for check in checks for violation, what in check]
    return Reconciliation(
        acknowledged=len(acks),
        correlations=len(sorted_acks),
        completed=sum(row.status == "completed" for row in stored.values()),
        watched=len(observed),
        floor=floor,
        verdicts=Counter(ack.verdict for ack in acks if ack.verdict),
        findings=findings,
    )


def must_end(acks: Sequence[Ack]) -> bool:
    """Return whether what was acknowledged is all that this correlation waits for."""
    channels = {ack.channel for ack in acks}
    match acks[0].shape:
        case ScenarioShape.ORPHAN:
            return False
        case ScenarioShape.UNANSWERED:
            return RequestChannel.REGISTER in channels
        case ScenarioShape.ANY:
            return RequestChannel.REGISTER in channels and len(channels) > 1
        case ScenarioShape.ALL:
            return len(channels) == len(RequestChannel)


def sender_id(event_id: str) -> str:
    """Return the sender's event id, without the prefix that Muster adds."""
    return event_id.rpartition("/")[2]


Violations: TypeAlias = Iterator[tuple[Violation, str]]


def _check_lost(acks: Sequence[Ack], row: StoredCorrelation) -> Violations:
    stored = {sender_id(line.event_id) for line in (*row.lines, *row.parked)}
    counted = set(map(sender_id, row.counted))
    if row.status is None and any(ack.channel is RequestChannel.REGISTER for ack in acks):
        yield Violation.LOST, "its registration was acknowledged and there is no row"
    for ack in acks:
        if ack.channel is RequestChannel.REGISTER:
            continue
        if ack.verdict == "matched" and ack.event_id not in counted:
            yield Violation.LOST, f"{ack.event_id} was matched and does not count"
        elif ack.event_id not in stored:
            what = f"{ack.event_id} ({ack.verdict}) is neither in the log nor the inbox"
            yield Violation.LOST, what


def _check_twice(_: Sequence[Ack], row: StoredCorrelation) -> Violations:
    numbers = Counter(line.number for line in row.lines)
    if row.end_number is not None:
        numbers[row.end_number] += 1
    for number, times in numbers.items():
        if times > 1:
            yield Violation.TWICE, f"{times} entries of its log have the number {number}"
    for event_id, times in Counter(row.counted).items():
        if times > 1:
            yield Violation.TWICE, f"{event_id} counts {times} times"
    received, counted = sum(line.kind == "received" for line in row.lines), len(row.counted)
    if received > counted:
        yield Violation.TWICE, f"{received} events were received where {counted} count"


def _check_ending(acks: Sequence[Ack], row: StoredCorrelation) -> Violations:
    expected = "timeout" if acks[0].shape is ScenarioShape.UNANSWERED else "completed"
    if row.status is None:
        return
    if row.status == "waiting":
        if must_end(acks):
            yield Violation.UNFINISHED, f"it has all it needs to be {expected}"
    elif row.status != expected:
        yield Violation.WRONG, f"it ended as {row.status}, not as {expected}"
    elif row.resumed != (expected == "completed"):
        resumed = "resumed" if row.resumed else "not resumed"
        yield Violation.WRONG, f"it is {expected}, yet it was {resumed}"


def _check_verdicts(acks: Sequence[Ack], _: StoredCorrelation) -> Violations:
    for ack in acks:
        if ack.verdict == "rejected" and ack.reason != "execution_mismatch":
            yield Violation.WRONG, f"{ack.event_id} was rejected: {ack.reason}"


_CHECKS = (_check_lost, _check_twice, _check_ending, _check_verdicts)


def _check_stream(row: StoredCorrelation, observed: Sequence[ObservedEvent]) -> Violations:
    """Check that a reader saw each log line once, in order, and then the end."""
    numbers = Counter(line.number for line in observed)
    for number, times in numbers.items():
        if times > 1:
            yield Violation.TWICE, f"the receiver was shown number {number} again"
    ends = sum(line.kind == ENDED for line in observed)
    if ends > 1:
        yield Violation.TWICE, f"the receiver saw it end {ends} times"
    if row.end_number is not None:
        logged = {line.number for line in row.lines if line.number < row.end_number}
        missed = sorted((logged | {row.end_number}) - set(numbers))
        if missed:
            yield Violation.LOST, f"the receiver never saw number {', '.join(map(str, missed))}"


def _check_foreign_data(scoped_id: str, lines: Iterable[ObservedEvent]) -> Violations:
    for line in lines:
        if line.of is not None and line.of != scoped_id:
            yield Violation.CONTAMINATED, f"{line.event_id} carries the data of {line.of}"
        elif line.id is not None and line.id != sender_id(line.event_id):
            yield Violation.CONTAMINATED, f"{line.event_id} carries the data of {line.id}"
