"""The schema dialects by their names in the API. Each is imported when it is first needed."""

from importlib import import_module
from typing import cast

from core.events.event_type import SchemaType
from handlers.schemas.interface import SchemaDialect

_MODULES = {
    SchemaType.JSON_SCHEMA: "json_schema",
    SchemaType.XSD: "xsd",
    SchemaType.PROTO: "proto",
}


def dialect_of(kind: SchemaType) -> SchemaDialect:
    return cast("SchemaDialect", import_module(f"handlers.schemas.{_MODULES[kind]}"))
