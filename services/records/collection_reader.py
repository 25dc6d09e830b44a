"""Reads the definitions that data paths lead through: those of one step of all paths together."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from core.records.collection import CollectionDefinition, Collections
from core.records.data_path import DataPath
from core.shared.errors import InvalidError, NotFoundError

MAX_PATH_COLLECTIONS = 100
"""Collections that one request may lead through."""


class StoredCollection(Protocol):
    """A collection with the number that its records are stored by."""

    @property
    def collection_no(self) -> int: ...

    @property
    def collection_id(self) -> str: ...

    @property
    def definition(self) -> CollectionDefinition: ...


ReadCollection: TypeAlias = Callable[[int, str], Awaitable[StoredCollection | None]]
"""Reads one of a tenant's collections by id or name."""
ReadCollections: TypeAlias = Callable[
    [int, Iterable[str]], Awaitable[Mapping[str, StoredCollection]]
]
"""Reads those of a tenant's active collections that have these names."""


class ReachedCollections(NamedTuple):
    """The collections that paths from `root` lead through, by name."""

    root: StoredCollection
    by_name: Mapping[str, StoredCollection]
    is_complete: bool = True

    @property
    def definitions(self) -> Collections:
        return {name: one.definition for name, one in self.by_name.items()}

    @property
    def numbers(self) -> Mapping[str, int]:
        return {name: one.collection_no for name, one in self.by_name.items()}


class CollectionReader:
    def __init__(self, read: ReadCollection, read_many: ReadCollections) -> None:
        self._read = read
        self._read_many = read_many

    async def root(self, tenant: int, name: str) -> StoredCollection:
        """Read one collection by its id or name.

        Raises:
            NotFoundError: The tenant has none of this name.
        """
        found = await self._read(tenant, name)
        if found is None:
            raise NotFoundError(f"collection {name}")
        return found

    async def along(self, tenant: int, root: str, paths: Iterable[DataPath]) -> ReachedCollections:
        """Read the collections that paths lead through; a path that is not valid ends early.

        Raises:
            NotFoundError: The tenant has no collection `root`.
            InvalidError: They lead through too many.
        """
        first = await self.root(tenant, root)
        known = {first.definition.name: first}
        followed = [(path, first.definition) for path in paths]
        hop = 0
        while followed:
            ahead = [
                (path, target)
                for path, collection in followed
                if (target := _target(path, hop, collection)) is not None
            ]
            await self._add(tenant, known, (target for _, target in ahead))
            if len(known) > MAX_PATH_COLLECTIONS:
                raise InvalidError(
                    "expressions", f"paths through {MAX_PATH_COLLECTIONS} collections at most"
                )
            followed = [(path, known[name].definition) for path, name in ahead if name in known]
            hop += 1
        return ReachedCollections(first, known)

    async def around(self, tenant: int, root: str, depth: int) -> ReachedCollections:
        """Read the collections within `depth` levels of one, the nearest first, up to a limit.

        Raises:
            NotFoundError: The tenant has no collection `root`.
        """
        first = await self.root(tenant, root)
        known = {first.definition.name: first}
        level = [first]
        for _ in range(depth - 1):
            targets = {
                field.target: None
                for one in level
                for field in one.definition.fields
                if field.type.is_relationship and field.target not in {None, *known}
            }
            room = MAX_PATH_COLLECTIONS - len(known)
            wanted = [name for name in targets if name is not None]
            level = await self._add(tenant, known, wanted[:room])
            if len(wanted) > room:
                return ReachedCollections(first, known, is_complete=False)
        return ReachedCollections(first, known)

    async def _add(
        self, tenant: int, known: dict[str, StoredCollection], names: Iterable[str]
    ) -> list[StoredCollection]:
        missing = {name for name in names if name not in known}
        found = await self._read_many(tenant, missing) if missing else {}
        known |= found
        return list(found.values())


def _target(path: DataPath, hop: int, collection: CollectionDefinition) -> str | None:
    """Return the collection that a step of a path leads to; None behind its last step."""
    if hop >= len(path.relationships):
        return None
    field = collection.by_name.get(path.relationships[hop].field_name)
    return field.target if field is not None and field.type.is_relationship else None
