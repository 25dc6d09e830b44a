"""Stores transactions: many in one statement, each as a whole or not at all."""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.records.change_outbox import OutgoingChange
from core.records.record import Record, RecordChange, UniqueValue
from core.shared.entities import Entity, EntityRef, Row
from storage.entities.record_rows import (
    change_row,
    guard_row,
    new_record_row,
    outgoing_row,
    saved_record_row,
    unique_value_row,
)
from storage.postgres.pool import Connection
from storage.postgres.queries import Q


class TransactionChange(msgspec.Struct, gc=False):
    """What one transaction stores, and what it relies on."""

    before: dict[EntityRef[Any], Entity | None] = {}
    """The state in which each entity must be stored now; None if it must not be stored."""
    after: dict[EntityRef[Any], Entity] = {}
    """The new states. An entity that is in `before` alone was only read."""
    addressed: EntityRef[Any] | None = None
    """The entity whose insert may meet a row: the transaction is then lost without an error."""
    definitions: dict[EntityRef[Any], int] = {}
    """The version of each collection by which was decided."""
    rows: list[Row] = []


class _Arguments:
    """The parameters of one flush, in the order of the statement."""

    def __init__(self) -> None:
        self.guards: list[tuple[Any, ...]] = []
        self.definitions: list[tuple[Any, ...]] = []
        self.new_records: list[tuple[Any, ...]] = []
        self.saved_records: list[tuple[Any, ...]] = []
        self.unique_values: list[tuple[Any, ...]] = []
        self.changes: list[tuple[Any, ...]] = []
        self.outgoing: list[tuple[Any, ...]] = []

    def add(self, tx: int, change: TransactionChange) -> None:
        self.definitions += [(tx, *ref.key, seen) for ref, seen in change.definitions.items()]
        for ref, after in change.after.items():
            before = change.before[ref]
            if isinstance(after, Record):
                if before is None:
                    self.new_records.append(new_record_row(tx, after, ref == change.addressed))
                else:
                    self.saved_records.append(saved_record_row(tx, before, after))
            elif isinstance(after, UniqueValue):
                moved = unique_value_row(tx, before, after)
                if moved is not None:
                    self.unique_values.append(moved)
            else:
                raise TypeError(f"no table for {type(after).__name__}")
        for row in change.rows:
            if isinstance(row, RecordChange):
                self.changes.append(change_row(tx, row))
            elif isinstance(row, OutgoingChange):
                self.outgoing.append(outgoing_row(tx, row))
            else:
                raise TypeError(f"no table for {type(row).__name__}")
        self._guard(tx, change)

    def _guard(self, tx: int, change: TransactionChange) -> None:
        """Lock the rows of a transaction first, unless its only check is made by its update.

        Unique values need no guard: only transactions of the record that holds one change it.
        """
        stored = [one for one in change.before.values() if isinstance(one, Record)]
        addressed = change.addressed
        is_insert_checked = addressed is not None and change.before[addressed] is None
        is_only_read = any(one.ref not in change.after for one in stored)
        if is_only_read or len(stored) + is_insert_checked > 1:
            self.guards += [guard_row(tx, one) for one in stored]

    def in_order(self) -> tuple[list[tuple[Any, ...]], ...]:
        """Sort the rows that are locked by key, so that two shards seldom lock crosswise."""
        self.guards.sort(key=lambda row: row[1:4])
        self.saved_records.sort(key=lambda row: row[1:4])
        self.new_records.sort(key=lambda row: row[2:5])
        self.unique_values.sort(key=lambda row: row[1:5])
        return (
            self.guards,
            self.definitions,
            self.new_records,
            self.saved_records,
            self.unique_values,
            self.changes,
            self.outgoing,
        )


async def flush_transactions(conn: Connection, changes: Sequence[TransactionChange]) -> set[int]:
    """Store transactions; return the indices of those that were lost.

    Raises:
        asyncpg.UniqueViolationError: Nothing was stored, because a new row exists already. A
            transaction that raises it alone is lost.
    """
    arguments = _Arguments()
    for tx, change in enumerate(changes):
        arguments.add(tx, change)
    rows = await conn.fetch(Q["flush_transactions"], *arguments.in_order())
    return {row[0] for row in rows}
