"""Changes of records with their outbox rows, written as a shard writes them."""

from typing import Any

from msgspec.structs import replace

from core.records.change_outbox import outbox_rows
from core.records.collection import CollectionDefinition
from core.records.field import FieldDefinition, FieldType
from core.records.record import ChangeKind, Record, RecordAddress, RecordChange
from core.shared.tsid import IdMaker
from storage.entities.transactions import TransactionChange, flush_transactions
from storage.postgres.pool import Connection, Pool
from storage.records.changes import ChangeKey
from tests.support.records import NOW, changed, create_collection, created

ORDERS = CollectionDefinition(
    name="orders",
    fields=(
        FieldDefinition(name="status", type=FieldType.STRING),
        FieldDefinition(name="card", type=FieldType.ENCRYPTED),
    ),
)


class LostError(Exception):
    """Another owner was first."""


class RecordWriter:
    """Writes records of one collection; each write is a transaction of its own."""

    def __init__(self, conn: Connection | Pool, tenant: int, collection_no: int) -> None:
        self._conn = conn
        self._tenant = tenant
        self._collection_no = collection_no
        self._records: dict[str, Record] = {}
        self._new_id = IdMaker(collection_no, lambda: NOW)
        self.topic: str | None = None
        self.followed: frozenset[str] = frozenset(ChangeKind)

    @classmethod
    async def of(
        cls, pool: Pool, tenant: int, definition: CollectionDefinition = ORDERS
    ) -> "RecordWriter":
        return cls(pool, tenant, await create_collection(pool, tenant, definition))

    async def write(self, record_id: str, **data: Any) -> ChangeKey:
        """Create or change a record; return the key of the change."""
        address = RecordAddress(self._tenant, self._collection_no, record_id)
        before = self._records.get(record_id)
        after = changed(before, "t", **data) if before else created(address, **data)
        return await self._store(before, after, self._kind(before))

    async def delete(self, record_id: str) -> ChangeKey:
        before = self._records[record_id]
        after = replace(changed(before, "t"), deleted_at=NOW)
        return await self._store(before, after, ChangeKind.DELETED)

    def _kind(self, before: Record | None) -> ChangeKind:
        return ChangeKind.CREATED if before is None else ChangeKind.UPDATED

    async def _store(self, before: Record | None, after: Record, kind: ChangeKind) -> ChangeKey:
        change = RecordChange(
            address=after.address,
            change_id=self._new_id(),
            version=after.version,
            kind=kind,
            data=after.text,
            before=None if before is None else before.text,
            user_id="ada",
            turn_id="t",
            at=NOW,
        )
        transaction = TransactionChange(
            before={after.ref: before},
            after={after.ref: after},
            addressed=after.ref,
            rows=[change, *outbox_rows(change, self.followed, self.topic)],
        )
        if await flush_transactions(self._conn, [transaction]):  # type: ignore[arg-type]
            raise LostError
        self._records[after.address.record_id] = after
        return ChangeKey(
            self._tenant, self._collection_no, after.address.record_id, change.change_id
        )
