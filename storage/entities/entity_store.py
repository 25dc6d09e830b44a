"""A shard's access to the entities in Postgres: its own connection for transactions."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from core.records.record import ChangeKind, Record, RecordAddress, RecordChange
from core.shared.entities import EntityRef
from storage.entities.loader import Loaded, load_entities
from storage.entities.transactions import TransactionChange, flush_transactions
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Connection, PoolOptions
from storage.postgres.trial_write import NOT_KEPT, rolled_back
from storage.postgres.write_connection import WriteConnection

Reader: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]

# No tenant has this number, and the row is never committed.
_TRIAL = RecordAddress(0, 0, "trial")


class EntityStore:
    """Connects on first use, and again after a connection is lost."""

    def __init__(self, options: PoolOptions, clock: DatabaseClock, reader: Reader) -> None:
        self._reader = reader
        self._writer = WriteConnection(options, clock)

    async def load(self, refs: Iterable[EntityRef[Any]]) -> Loaded:
        async with self._reader() as conn:
            return await load_entities(conn, refs)

    async def flush(self, changes: Sequence[TransactionChange]) -> set[int]:
        """Store transactions in one flush; return the indices of those that were lost."""
        return await self._writer.use(lambda conn: flush_transactions(conn, changes))

    async def probe(self) -> None:
        """Write a trial row; raise the error of Postgres if it accepts none."""
        await self._writer.use(_write_trial)

    def close(self) -> None:
        self._writer.close()


async def _write_trial(conn: Connection) -> None:
    record = Record(address=_TRIAL, version=1, data={}, created_at=0.0, updated_at=0.0)
    row = RecordChange(
        address=_TRIAL, change_id="trial", version=1, kind=ChangeKind.CREATED, data="{}",
        turn_id="trial", at=0.0,
    )  # fmt: skip
    change = TransactionChange(
        before={record.ref: None}, after={record.ref: record}, addressed=record.ref, rows=[row]
    )
    async with rolled_back(conn):
        if await flush_transactions(conn, [change]):
            raise OSError(NOT_KEPT)
