"""The schema dialects by their names in the API, and the schemas that are loaded.

Each dialect is imported when it is first needed.
"""

from importlib import import_module
from typing import cast

from core.events.event_type import SchemaType
from handlers.schemas.interface import CompiledSchema, PayloadCheck, SchemaDialect

_MODULES = {
    SchemaType.JSON_SCHEMA: "json_schema",
    SchemaType.XSD: "xsd",
    SchemaType.PROTO: "proto",
}


def dialect_of(kind: SchemaType) -> SchemaDialect:
    return cast("SchemaDialect", import_module(f"handlers.schemas.{_MODULES[kind]}"))


class LoadedSchemas:
    """The loaded schemas that were used last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._checks: dict[bytes, PayloadCheck] = {}

    def get(self, key: bytes) -> PayloadCheck | None:
        check = self._checks.pop(key, None)
        if check is not None:
            self._checks[key] = check  # last in order: the last to be evicted
        return check

    def load(self, compiled: CompiledSchema) -> PayloadCheck:
        check = self._checks[compiled.key] = dialect_of(compiled.kind).load(compiled.form)
        while len(self._checks) > self._limit:
            del self._checks[next(iter(self._checks))]
        return check
