"""Builds the data of an action from named data paths."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from core.records.data_path import DataPath
from core.records.path_batch import Root
from services.records.data_path_resolver import DataPathResolver


class DataPayloadField(NamedTuple):
    """A name of the payload, and the path that its value comes from."""

    name: str
    path: DataPath


class DataPayloadBuilder:
    def __init__(self, resolver: DataPathResolver) -> None:
        self._resolver = resolver

    async def build(
        self, tenant: int, root: str, fields: Sequence[DataPayloadField], record: Root
    ) -> dict[str, Any]:
        """Resolve every field of a record; several names may have the same path."""
        paths = [field.path for field in fields]
        found = await self._resolver.resolve_all(tenant, root, paths, record)
        return {field.name: found[str(field.path)] for field in fields}
