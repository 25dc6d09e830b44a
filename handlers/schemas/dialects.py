"""The families by the names that users give them. Each is loaded when it is first needed."""

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
    """The family of this name."""
    return cast("SchemaDialect", import_module(f"handlers.schemas.{_MODULES[kind]}"))
