"""Do the callers, Postgres and the receiver agree? Pure: three accounts in, one verdict out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tools.chaos.ack_log import Ack
from tools.chaos.scenario import Door, Shape

Place: TypeAlias = tuple[str, str]
ENDED = "ended"
# An event told "matched" was told that it counts.
COUNTS = "matched"
RECEIVED = "received"


class Flaw(StrEnum):
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

    flaw: Flaw
    place: Place
    what: str

    def __str__(self) -> str:
        return f"{self.flaw}: {':'.join(self.place)}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An event as it is stored or shown; `of` and `id` are what its payload says of itself."""

    number: int
    kind: str
    event_id: str
    of: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What Postgres has of one correlation; without a `status` there is no row."""

    status: str | None = None
    end_number: int | None = None
    resumed: bool = False
    counted: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    parked: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
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

    def count(self, flaw: Flaw) -> int:
        """How many flaws of one kind."""
        return sum(finding.flaw is flaw for finding in self.findings)


def compare(
    acks: Iterable[Ack],
    kept: Mapping[Place, Kept],
    seen: Mapping[Place, Sequence[Line]],
    *,
    floor: int,
) -> Account:
    """Hold what was promised against what was kept and what was shown."""
    promised: dict[Place, list[Ack]] = defaultdict(list)
    for ack in acks:
        promised[ack.place].append(ack)
    findings: list[Finding] = []
    for place, promises in promised.items():
        row = kept.get(place, Kept())
        findings += _judge(place, promises, row)
        if place in seen:
            findings += _judge_receiver(place, row, seen[place])
    return Account(
        acknowledged=sum(map(len, promised.values())),
        correlations=len(promised),
        completed=sum(row.status == "completed" for row in kept.values()),
        watched=len(seen),
        floor=floor,
        verdicts=Counter(a.verdict for some in promised.values() for a in some if a.verdict),
        findings=findings,
    )


def must_end(promises: Sequence[Ack]) -> bool:
    """Whether what was acknowledged so far is all that this correlation waits for."""
    doors = {ack.door for ack in promises}
    match promises[0].shape:
        case Shape.ORPHAN:
            return False
        case Shape.UNANSWERED:
            return Door.REGISTER in doors
        case Shape.ANY:
            return Door.REGISTER in doors and len(doors) > 1
        case Shape.ALL:
            return len(doors) == len(Door)


def sender_id(event_id: str) -> str:
    """The id its sender gave an event, without what the product put before it."""
    return event_id.rpartition("/")[2]


def _judge(place: Place, promises: Sequence[Ack], row: Kept) -> Iterator[Finding]:
    checks = (_lost, _twice, _ending, _verdicts)
    for flaw, what in (pair for check in checks for pair in check(promises, row)):
        yield Finding(flaw, place, what)
    for line in (*row.lines, *row.parked):
        yield from _stranger(place, line)


Flaws: TypeAlias = Iterator[tuple[Flaw, str]]


def _lost(promises: Sequence[Ack], row: Kept) -> Flaws:
    logged = {sender_id(line.event_id): line.kind for line in row.lines}
    parked = {sender_id(line.event_id) for line in row.parked}
    counted = set(map(sender_id, row.counted))
    if row.status is None and any(ack.door is Door.REGISTER for ack in promises):
        yield Flaw.LOST, "its registration was acknowledged and there is no row"
    for ack in promises:
        if ack.door is Door.REGISTER:
            continue
        if ack.verdict == COUNTS and ack.event_id not in counted:
            yield Flaw.LOST, f"{ack.event_id} was told that it counts and does not"
        elif ack.event_id not in logged and ack.event_id not in parked:
            yield Flaw.LOST, f"{ack.event_id} ({ack.verdict}) is neither in the log nor the inbox"


def _twice(promises: Sequence[Ack], row: Kept) -> Flaws:
    numbers = Counter(line.number for line in row.lines)
    if row.end_number is not None:
        numbers[row.end_number] += 1
    for number, times in numbers.items():
        if times > 1:
            yield Flaw.TWICE, f"{times} things have the number {number} in its log"
    for event_id, times in Counter(row.counted).items():
        if times > 1:
            yield Flaw.TWICE, f"{event_id} counts {times} times"
    received = [line for line in row.lines if line.kind == RECEIVED]
    if len(received) > len(row.counted):
        yield Flaw.TWICE, f"{len(received)} events were received where {len(row.counted)} count"


def _ending(promises: Sequence[Ack], row: Kept) -> Flaws:
    expected = "timeout" if promises[0].shape is Shape.UNANSWERED else "completed"
    if row.status in (None, "waiting"):
        if must_end(promises) and row.status is not None:
            yield Flaw.UNFINISHED, f"it has all it needs to be {expected}"
    elif row.status != expected:
        yield Flaw.WRONG, f"it ended as {row.status}, not as {expected}"
    elif row.resumed != (expected == "completed"):
        yield Flaw.WRONG, f"it is {expected}, yet it was {'' if row.resumed else 'not '}resumed"


def _verdicts(promises: Sequence[Ack], row: Kept) -> Flaws:
    for ack in promises:
        if ack.verdict == "rejected" and ack.reason != "execution_mismatch":
            yield Flaw.WRONG, f"{ack.event_id} was rejected: {ack.reason}"


def _stranger(place: Place, line: Line) -> Iterator[Finding]:
    if line.of is not None and line.of != ":".join(place):
        what = f"{line.event_id} carries the data of {line.of}"
        yield Finding(Flaw.CONTAMINATED, place, what)
    elif line.id is not None and line.id != sender_id(line.event_id):
        what = f"{line.event_id} carries the data of {line.id}"
        yield Finding(Flaw.CONTAMINATED, place, what)


def _judge_receiver(place: Place, row: Kept, seen: Sequence[Line]) -> Iterator[Finding]:
    """A reader is shown the whole story once: each line, then the end, whatever broke between."""
    for number, times in Counter(line.number for line in seen).items():
        if times > 1:
            yield Finding(Flaw.TWICE, place, f"the receiver was shown number {number} again")
    ends = [line for line in seen if line.kind == ENDED]
    if len(ends) > 1:
        yield Finding(Flaw.TWICE, place, f"the receiver saw it end {len(ends)} times")
    if row.end_number is not None:
        story = {line.number for line in row.lines if line.number < row.end_number}
        missed = (story | {row.end_number}) - {line.number for line in seen}
        if missed:
            numbers = ", ".join(map(str, sorted(missed)))
            yield Finding(Flaw.LOST, place, f"the receiver never saw number {numbers}")
    for line in seen:
        yield from _stranger(place, line)
