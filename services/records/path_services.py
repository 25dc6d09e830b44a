"""The services of data paths on the connections for listings, which tenants share fairly."""

from collections.abc import Iterable, Mapping

from core.records.path_batch import PathBatch, PathRow
from services.records.collection_reader import CollectionReader, StoredCollection
from services.records.data_path_resolver import DataPathResolver
from services.records.data_path_validator import DataPathValidator
from services.shared.listings import Listings
from storage.postgres.pool import Pool
from storage.records import collections
from storage.records.path_query import follow_paths


class PathServices:
    """What people see of records: encrypted values are masked."""

    def __init__(self, listings: Listings, mask: str) -> None:
        self._listings = listings
        self.collections = CollectionReader(self._read, self._read_many)
        self.validator = DataPathValidator(self.collections)
        self.resolver = DataPathResolver(self.collections, self._follow, mask)

    async def _read(self, tenant: int, name: str) -> StoredCollection | None:
        return await self._listings.query(collections.read, tenant, name)

    async def _read_many(self, tenant: int, names: Iterable[str]) -> Mapping[str, StoredCollection]:
        return await self._listings.query(collections.read_many, tenant, names)

    async def _follow(
        self, tenant: int, batch: PathBatch, *, every_record: bool = False
    ) -> list[PathRow]:
        async def follow(pool: Pool, _: int) -> list[PathRow]:
            return await follow_paths(pool, batch, every_record=every_record)

        return await self._listings.query(follow, tenant)
