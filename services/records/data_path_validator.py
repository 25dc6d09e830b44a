"""Validates data paths against the collections of a tenant, when something is saved."""

from collections.abc import Sequence

from core.records.data_path import DataPath, InvalidDataPathError, parse_data_path
from core.records.path_validator import DataPathValidation, validate_data_path
from services.records.collection_reader import CollectionReader


class DataPathValidator:
    def __init__(self, collections: CollectionReader) -> None:
        self._collections = collections

    async def validate(self, tenant: int, root: str, expression: str) -> DataPathValidation:
        """Validate the text of one path that begins at the collection `root`."""
        (found,) = await self.validate_all(tenant, root, [expression])
        return found

    async def validate_all(
        self, tenant: int, root: str, expressions: Sequence[str]
    ) -> list[DataPathValidation]:
        """Validate many paths; the collections that they lead through are read together.

        Raises:
            NotFoundError: The tenant has no collection `root`.
            InvalidError: They lead through too many collections.
        """
        parsed = [_parse(one) for one in expressions]
        paths = [one for one in parsed if isinstance(one, DataPath)]
        reached = await self._collections.along(tenant, root, paths)
        name, definitions = reached.root.definition.name, reached.definitions
        return [
            validate_data_path(one, name, definitions) if isinstance(one, DataPath) else one
            for one in parsed
        ]


def _parse(expression: str) -> DataPath | DataPathValidation:
    try:
        return parse_data_path(expression)
    except InvalidDataPathError as error:
        return DataPathValidation(False, str(error))
