"""The collections and records of a shop in memory, as services read them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from core.records.collection import CollectionDefinition
from core.records.path_batch import PathBatch, PathRow
from services.records.collection_reader import CollectionReader, StoredCollection
from services.records.data_path_resolver import DataPathResolver
from tests.unit.core.records.definitions import SHOP
from tests.unit.core.records.test_path_batch import NUMBERS, STORED, follow

TENANT = 1


class Stored(NamedTuple):
    collection_no: int
    collection_id: str
    definition: CollectionDefinition


class ShopReader:
    """Counts what is read."""

    def __init__(self, shop: dict[str, CollectionDefinition] | None = None) -> None:
        self._shop = dict(SHOP) if shop is None else shop
        self.reads: list[list[str]] = []
        self.queries: list[PathBatch] = []

    def _stored(self, name: str) -> Stored:
        return Stored(NUMBERS.get(name, 99), f"col_{name}", self._shop[name])

    async def read(self, tenant: int, name: str) -> StoredCollection | None:
        name = name.removeprefix("col_")
        return self._stored(name) if tenant == TENANT and name in self._shop else None

    async def read_many(self, tenant: int, names: Iterable[str]) -> dict[str, StoredCollection]:
        assert tenant == TENANT
        self.reads.append(sorted(names))
        return {name: self._stored(name) for name in names if name in self._shop}

    async def follow(
        self, tenant: int, batch: PathBatch, *, every_record: bool = False
    ) -> list[PathRow]:
        assert tenant == TENANT
        self.queries.append(batch)
        return [row for row in follow(batch, STORED) if every_record or row.field is not None]

    @property
    def collections(self) -> CollectionReader:
        return CollectionReader(self.read, self.read_many)

    @property
    def resolver(self) -> DataPathResolver:
        return DataPathResolver(self.collections, self.follow)

    @property
    def records_read(self) -> list[Any]:
        """What the last query found, each record once."""
        return [row for row in follow(self.queries[-1], STORED) if row.field is None]
