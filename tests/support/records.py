"""Records and their transactions, for tests of storage and shards."""

from typing import Any

from msgspec.structs import replace

from core.records.collection import CollectionDefinition
from core.records.field import FieldDefinition, FieldType
from core.records.record import ChangeKind, Record, RecordAddress, RecordChange, add_turn
from core.shared.entities import Entity, EntityRef
from storage.entities.transactions import TransactionChange
from storage.postgres.pool import Pool
from storage.records import collections
from storage.records.collections import CollectionRow, NewCollection, VersionNote

NOW = 1_800_000_000.0
PEOPLE = CollectionDefinition(
    name="people",
    fields=(
        FieldDefinition(name="name", type=FieldType.STRING),
        FieldDefinition(name="email", type=FieldType.EMAIL, unique=True),
    ),
)


async def create_collection(
    pool: Pool, tenant: int, definition: CollectionDefinition = PEOPLE
) -> int:
    """Store a definition; return the number of its collection."""
    new = NewCollection(
        collection_id=f"id-{definition.name}",
        name=definition.name,
        description=None,
        definition=definition,
    )
    made = await collections.create(pool, tenant, new, VersionNote(), lambda *_: None)
    assert isinstance(made, CollectionRow)
    return made.collection_no


def created(address: RecordAddress, turn_id: str = "t1", **data: Any) -> Record:
    return Record(
        address=address,
        version=1,
        data=data,
        created_at=NOW,
        updated_at=NOW,
        recent_turns=add_turn(b"", turn_id),
    )


def changed(before: Record, turn_id: str, **data: Any) -> Record:
    return replace(
        before,
        version=before.version + 1,
        data={**before.data, **data},
        recent_turns=add_turn(before.recent_turns, turn_id),
    )


def change_of(before: Record | None, after: Record, turn_id: str) -> RecordChange:
    return RecordChange(
        address=after.address,
        change_id=f"{after.address.record_id}-{after.version}-{turn_id}",
        version=after.version,
        kind=ChangeKind.CREATED if before is None else ChangeKind.UPDATED,
        data=after.text,
        before=None if before is None else before.text,
        turn_id=turn_id,
        at=after.updated_at,
    )


def transaction(
    *steps: tuple[Entity | None, Entity],
    turn_id: str = "t1",
    unchanged: tuple[Record, ...] = (),
) -> TransactionChange:
    """A transaction of these steps (before, after); the first is addressed, records log changes."""
    before: dict[EntityRef[Any], Entity | None] = {after.ref: old for old, after in steps}
    return TransactionChange(
        before=before | {one.ref: one for one in unchanged},
        after={after.ref: after for _, after in steps},
        addressed=steps[0][1].ref,
        rows=[
            change_of(old, new, turn_id)  # type: ignore[arg-type]  # states of one record
            for old, new in steps
            if isinstance(new, Record)
        ],
    )
