"""Previews a change of a collection: what it breaks, and which stored records do not fit."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from core.records.comparison import unique_hash
from core.records.definitions.changes import ChangeSeverity, DefinitionChange, RecordCheck
from services.shared.time_slice import TimeSlice
from storage.records.record_scan import ScannedRecord

MAX_RECORDS = 50_000
MAX_SECONDS = 5.0
MAX_EXAMPLES = 20
ONLY_ONE = "a value that no other record has"

ReadRecords = Callable[[list[str], str], Awaitable[list[ScannedRecord]]]
"""Reads the next records after an id, each with these fields."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record that could not be written as it is."""

    record_id: str
    field: str
    expected: str


@dataclass(slots=True)
class DefinitionPreview:
    changes: list[DefinitionChange]
    records_checked: int = 0
    complete: bool = True
    misfits: int = 0
    """How many records do not fit."""
    examples: list[Misfit] = field(default_factory=list)

    @property
    def breaking(self) -> bool:
        return any(one.severity is ChangeSeverity.BREAKING for one in self.changes)


async def check_records(
    preview: DefinitionPreview, check: RecordCheck, read: ReadRecords, now: Callable[[], float]
) -> None:
    """Check stored records for some seconds, and add what does not fit to the preview."""
    deadline, last, timeslice = now() + MAX_SECONDS, "", TimeSlice()
    holders: dict[tuple[str, bytes], str] = {}
    while check.names and (found := await read(check.names, last)):
        for one in found:
            if preview.records_checked >= MAX_RECORDS or now() > deadline:
                preview.complete = False
                return
            _check(preview, check, one, holders)
            if timeslice.is_due:
                await timeslice.take()
        last = found[-1].record_id


def _check(
    preview: DefinitionPreview,
    check: RecordCheck,
    one: ScannedRecord,
    holders: dict[tuple[str, bytes], str],
) -> None:
    found = [Misfit(one.record_id, *misfit) for misfit in check.misfits(one.data)]
    for name in check.unique:
        value = one.data.get(name)
        if value is not None:
            holder = holders.setdefault((name, unique_hash(value)), one.record_id)
            if holder != one.record_id:
                found.append(Misfit(one.record_id, name, f"{ONLY_ONE}: {holder} has it"))
    preview.records_checked += 1
    preview.misfits += bool(found)
    preview.examples += found[: MAX_EXAMPLES - len(preview.examples)]
