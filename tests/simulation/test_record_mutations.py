"""Mistakes in the handling of records that the simulation finds within a few seeds."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import structlog

import core.records.record
from core.records.record import Record, RecordChange
from core.shared.entities import Entity, EntityKind, EntityRef
from storage.entities.transactions import TransactionChange
from tests.simulation.clockwork import simulate
from tests.simulation.record_scenario import play_records
from tests.simulation.record_store import RecordStore, RecordTables

SEEDS = 300

commit, fits, find, flush = (
    RecordTables.commit, RecordTables.fits, RecordTables.find, RecordStore.flush,
)  # fmt: skip


def guards_one_entity(self: RecordTables, change: TransactionChange) -> bool:
    """A flush that checks the addressed entity, but not the second one."""
    before = {ref: old for ref, old in change.before.items() if ref == change.addressed}
    return fits(self, TransactionChange(before=before, addressed=change.addressed))


def logs_before_it_locks(self: RecordTables, changes: Sequence[TransactionChange]) -> set[int]:
    """A flush that appends the rows of a transaction that is lost."""
    lost = commit(self, changes)
    for index in lost:
        self.changes += [row for row in changes[index].rows if isinstance(row, RecordChange)]
    return lost


async def confirms_too_early(self: RecordStore, changes: Sequence[TransactionChange]) -> set[int]:
    """A store that confirms what it has not written."""
    return set() if self._trouble.strikes(0.2) else await flush(self, changes)


def recognises_nothing(self: Record, turn_id: str) -> None:
    """A record that takes a message sent again for a new one."""


def finds_no_turn(self: RecordTables, ref: EntityRef[Any]) -> Entity | None:
    """A shard that does not look for what a message may have stored before."""
    return None if ref.kind is EntityKind.RECORD_TURN else find(self, ref)


@pytest.mark.parametrize(
    ("where", "name", "mistake", "law"),
    [
        (RecordTables, "fits", guards_one_entity, "each version has its change row"),
        (RecordTables, "commit", logs_before_it_locks, "a version has one change row"),
        (RecordStore, "flush", confirms_too_early, "acknowledged"),
        (Record, "version_of_turn", recognises_nothing, "a message changes a record once"),
        (RecordTables, "find", finds_no_turn, "a message changes a record once"),
    ],
)
def test_a_mistake_is_found(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, mistake: Callable[..., Any], law: str
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    monkeypatch.setattr(core.records.record, "RECENT_TURNS", 1)
    monkeypatch.setattr(where, name, mistake)
    with pytest.raises(AssertionError, match=law):
        play_all()


def play_all() -> None:
    for seed in range(SEEDS):
        simulate(play_records(seed, echoes=False))
