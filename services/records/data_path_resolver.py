"""Resolves data paths of records: what they lead to, and over which records."""

from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, Protocol

from core.records.collection import Collections
from core.records.data_path import DataPath, InvalidDataPathError
from core.records.path_batch import PathBatch, PathPlan, PathRow, Root
from core.records.path_tree import PathStep, build_tree
from core.records.path_validator import validate_data_path
from services.records.collection_reader import CollectionReader


class FollowPaths(Protocol):
    def __call__(
        self, tenant: int, batch: PathBatch, *, every_record: bool = False
    ) -> Awaitable[list[PathRow]]: ...


class TracedPaths(NamedTuple):
    """Values by path, and the records that each path came through."""

    values: dict[str, Any]
    steps: dict[str, tuple[PathStep, ...]]
    is_root_found: bool


class PlannedPaths(NamedTuple):
    plan: PathPlan
    hidden: frozenset[str]
    """The paths that end at a field that is ENCRYPTED, or once was."""


class DataPathResolver:
    """Resolves paths that begin at a collection of a tenant.

    A root is a record in memory or the id of one. Null, missing and deleted records resolve to
    None. Paths through a script end at the record that the script is given.
    """

    def __init__(
        self, collections: CollectionReader, follow: FollowPaths, mask: str | None = None
    ) -> None:
        """Take `mask` as the value of every hidden field, or show these as they are stored."""
        self._collections = collections
        self._follow = follow
        self._mask = mask

    async def plan(self, tenant: int, root: str, paths: Sequence[DataPath]) -> PlannedPaths:
        """Prepare paths, to resolve them of many records.

        Raises:
            NotFoundError: The tenant has no collection `root`.
            InvalidDataPathError: A path leads nowhere; the message names it.
        """
        reached = await self._collections.along(tenant, root, paths)
        name, definitions = reached.root.definition.name, reached.definitions
        hidden = {str(path) for path in paths if _is_hidden(path, name, definitions)}
        plan = PathPlan(tenant, name, build_tree(paths, name, definitions), reached.numbers)
        return PlannedPaths(plan, frozenset(hidden))

    async def resolve(self, tenant: int, root: str, path: DataPath, record: Root) -> Any:
        """Resolve one path."""
        return (await self.resolve_all(tenant, root, [path], record))[str(path)]

    async def resolve_all(
        self, tenant: int, root: str, paths: Sequence[DataPath], record: Root
    ) -> dict[str, Any]:
        """Resolve paths by their text; what they share is followed once."""
        (found,) = await self.resolve_many(await self.plan(tenant, root, paths), [record])
        return found

    async def resolve_many(
        self, planned: PlannedPaths, records: Sequence[Root]
    ) -> list[dict[str, Any]]:
        """Resolve prepared paths of many records with one query."""
        batch = PathBatch()
        batch.add(planned.plan, records)
        rows = await self._follow(planned.plan.tenant, batch)
        return [self._masked(one, planned) for one in batch.values(rows)]

    async def trace(
        self, tenant: int, root: str, paths: Sequence[DataPath], record: Root
    ) -> TracedPaths:
        """Resolve paths, and say over which records and versions they came."""
        planned = await self.plan(tenant, root, paths)
        batch = PathBatch()
        batch.add(planned.plan, [record])
        rows = await self._follow(tenant, batch, every_record=True)
        (values,), (steps,) = batch.values(rows), batch.steps(rows)
        is_root_found = not isinstance(record, str) or bool(rows)
        return TracedPaths(self._masked(values, planned), steps, is_root_found)

    def _masked(self, values: dict[str, Any], planned: PlannedPaths) -> dict[str, Any]:
        if self._mask is None or not planned.hidden:
            return values
        hidden = {name for name in planned.hidden if values[name] is not None}
        return values | dict.fromkeys(hidden, self._mask)


def _is_hidden(path: DataPath, root: str, collections: Collections) -> bool:
    """Return whether a path ends at a field whose values nobody is shown."""
    found = validate_data_path(path, root, collections)
    if not found.valid:
        raise InvalidDataPathError(f"{path}: {found.error_message}")
    ends_in = collections.get(found.terminal_collection_name or "")
    return ends_in is not None and found.terminal_field_name in ends_in.hidden
