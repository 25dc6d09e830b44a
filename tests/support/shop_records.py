"""Collections and records of a shop, written into Postgres as they are stored."""

from collections.abc import Mapping
from typing import Any

import msgspec

from core.records.collection import CollectionDefinition
from storage.postgres.pool import Pool
from storage.records.collections import CollectionRow, NewCollection, VersionNote, create


class ShopRecords:
    """Writes what one tenant has; collections get their number when they are defined."""

    def __init__(self, pool: Pool, tenant: int) -> None:
        self._pool = pool
        self.tenant = tenant
        self.numbers: dict[str, int] = {}

    async def define(self, *collections: CollectionDefinition) -> None:
        for one in collections:
            name = f"col_{self.tenant}_{one.name}"
            new = NewCollection(collection_id=name, name=one.name, description=None, definition=one)
            made = await create(self._pool, self.tenant, new, VersionNote(), lambda *_: None)
            assert isinstance(made, CollectionRow)
            self.numbers[one.name] = made.collection_no

    async def put(
        self,
        collection: str,
        records: Mapping[str, Mapping[str, Any]],
        *,
        version: int = 1,
        deleted: bool = False,
    ) -> None:
        await self._pool.execute(
            """insert into records (tenant_id, collection_no, record_id, version, data,
                                    created_at, updated_at, created_by, deleted_at)
               select $1, $2, id, $3, data, '2026-01-02 03:04:05.6Z', '2026-01-03Z', 'jo',
                      case when $6 then now() end
                 from unnest($4::text[], $5::jsonb[]) as r (id, data)""",
            self.tenant,
            self.numbers[collection],
            version,
            list(records),
            [msgspec.json.encode(record).decode() for record in records.values()],
            deleted,
        )
