"""The tables of records in the simulation: what storage/entities promises, and bad luck."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import asyncpg

from core.records.record import Collection, Record, RecordChange, RecordTurn, UniqueValue
from core.shared.entities import Entity, EntityKind, EntityRef
from storage.entities.loader import Loaded
from storage.entities.transactions import TransactionChange
from tests.simulation.store import LostError, Trouble


class RecordTables:
    """What is committed. Checks the laws at every write; a broken law is noted, not raised."""

    def __init__(self, collection: Collection) -> None:
        self.broken: list[str] = []
        self.entities: dict[EntityRef[Any], Entity] = {collection.ref: collection}
        self.changes: list[RecordChange] = []
        self.lost = 0
        self.merged = 0

    def commit(self, changes: Sequence[TransactionChange]) -> set[int]:
        """One flush: each transaction as a whole or not at all; a duplicate stops all of them."""
        lost = {index for index, change in enumerate(changes) if not self.fits(change)}
        kept = [change for index, change in enumerate(changes) if index not in lost]
        for change in kept:
            self.refuse_duplicates(change)
        for change in kept:
            self.write(change)
        self.lost += len(lost)
        return lost

    def find(self, ref: EntityRef[Any]) -> Entity | None:
        if ref.kind is not EntityKind.RECORD_TURN:
            return self.entities.get(ref)
        *record, turn_id = ref.key
        for row in self.changes:
            if row.address.ref.key == tuple(record) and row.turn_id == turn_id:
                return RecordTurn(ref=ref, version=row.version)
        return None

    def fits(self, change: TransactionChange) -> bool:
        """Whether all that a transaction relies on is as it was read."""
        for ref, before in change.before.items():
            found = self.entities.get(ref)
            if isinstance(before, Record) and (found is None or found.version != before.version):
                return False
            if before is None and ref == change.addressed and found is not None:
                return False
        return True

    def refuse_duplicates(self, change: TransactionChange) -> None:
        for ref in change.after:
            if change.before[ref] is None and ref in self.entities:
                raise asyncpg.UniqueViolationError(f"{ref.key} exists")

    def write(self, change: TransactionChange) -> None:
        rows = [row for row in change.rows if isinstance(row, RecordChange)]
        for ref, after in change.after.items():
            if isinstance(after, Record):
                self._check_versions(ref, after, rows)
                self.entities[ref] = after
            elif isinstance(after, UniqueValue) and after.record_id is None:
                self.entities.pop(ref, None)
            else:
                self.entities[ref] = after
        self.merged += len({row.turn_id for row in rows}) > 1
        self.changes += rows

    def _check_versions(self, ref: EntityRef[Any], after: Record, rows: list[RecordChange]) -> None:
        before = self.entities.get(ref)
        first = 1 if before is None else before.version + 1
        own = [row.version for row in rows if row.address.ref == ref]
        if own != list(range(first, after.version + 1)):
            self.broken.append("each version has its change row, in order")

    def check_all(self) -> None:
        """What must be true of all tables at the end."""
        assert not self.broken, f"{self.broken[0]} ({len(self.broken)} times)"
        versions = Counter((row.address.ref, row.version) for row in self.changes)
        assert set(versions.values()) <= {1}, "a version has one change row"
        turns = Counter((row.address.ref, row.turn_id) for row in self.changes)
        assert set(turns.values()) <= {1}, "a message changes a record once"
        for ref, entity in self.entities.items():
            if isinstance(entity, Record):
                last = max((row for row in self.changes if row.address.ref == ref), key=_version)
                assert (last.version, last.data) == (entity.version, entity.text), "history is true"
        self._check_unique_values()

    def _check_unique_values(self) -> None:
        records = [one for one in self.entities.values() if isinstance(one, Record)]
        emails = [
            (one.data["email"], one.address.record_id)
            for one in records
            if one.deleted_at is None and "email" in one.data
        ]
        assert len(dict(emails)) == len(emails), "a unique value has one holder"
        held = [one.record_id for one in self.entities.values() if isinstance(one, UniqueValue)]
        assert sorted(map(str, held)) == sorted(holder for _, holder in emails), "values are held"


def _version(change: RecordChange) -> int:
    return change.version


class RecordStore:
    """One shard's connection to these tables: slow at times, and at times gone."""

    def __init__(self, tables: RecordTables, rng: Random, trouble: Trouble) -> None:
        self._tables = tables
        self._rng = rng
        self._trouble = trouble

    async def load(self, refs: Iterable[EntityRef[Any]]) -> Loaded:
        await self._delay()
        found: Loaded = {ref: self._tables.find(ref) for ref in refs}
        await self._delay()
        return found

    async def flush(self, changes: Sequence[TransactionChange]) -> set[int]:
        """Commit; the answer may be lost although the commit was not."""
        await self._delay()
        lost = self._tables.commit(changes)
        await self._delay()
        return lost

    async def probe(self) -> None:
        """Take rows, as ever."""

    async def _delay(self) -> None:
        stall = 5.0 if self._trouble.strikes(0.02) else 0.0
        await asyncio.sleep(self._rng.random() * 0.01 + stall)
        if self._trouble.strikes(0.06):
            raise LostError("connection")
