"""Fields of a collection: their types, and what a value has to meet."""

from enum import StrEnum
from typing import Any

import msgspec

MAX_FIELDS = 500
MAX_INDEXED = 3
MAX_FORMULAS = 20
"""Together they may cost a write as much as one expression may."""
MAX_ROLLUPS = 10
"""Each reads the details of a record whenever the record is read."""
MAX_PATTERNS = 50
"""Each may cost a write as much as a pattern may."""


class FieldType(StrEnum):
    STRING = "STRING"
    INTEGER = "INTEGER"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    DATETIME = "DATETIME"
    JSON = "JSON"
    REFERENCE = "REFERENCE"
    ARRAY = "ARRAY"
    PICKLIST = "PICKLIST"
    MULTI_PICKLIST = "MULTI_PICKLIST"
    CURRENCY = "CURRENCY"
    PERCENT = "PERCENT"
    AUTO_NUMBER = "AUTO_NUMBER"
    PHONE = "PHONE"
    EMAIL = "EMAIL"
    URL = "URL"
    RICH_TEXT = "RICH_TEXT"
    ENCRYPTED = "ENCRYPTED"
    EXTERNAL_ID = "EXTERNAL_ID"
    GEOLOCATION = "GEOLOCATION"
    LOOKUP = "LOOKUP"
    MASTER_DETAIL = "MASTER_DETAIL"
    FORMULA = "FORMULA"
    ROLLUP_SUMMARY = "ROLLUP_SUMMARY"

    @property
    def is_relationship(self) -> bool:
        return self in RELATIONSHIPS


RELATIONSHIPS = frozenset({FieldType.REFERENCE, FieldType.LOOKUP, FieldType.MASTER_DETAIL})


class RollupFunction(StrEnum):
    COUNT = "COUNT"
    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    AVG = "AVG"


class RollupSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a ROLLUP_SUMMARY computes of the records that lead to its record."""

    collection: str
    relationship: str
    """The field of that collection that leads here."""
    function: RollupFunction
    field: str | None = None
    """The field of that collection that is summed up; a COUNT has none."""


class FieldDefinition(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """A field as it is stored with its collection."""

    name: str
    type: FieldType
    description: str | None = None
    required: bool = False
    unique: bool = False
    indexed: bool = False
    default: Any = None
    values: tuple[str, ...] = ()
    """What a PICKLIST or any text field may hold; empty: anything."""
    min: int | float | None = None
    max: int | float | None = None
    """Bounds of a number, or of the length of a text or a list."""
    pattern: str | None = None
    """An RE2 expression that a text matches as a whole."""
    target: str | None = None
    """The name of the collection that a relationship leads to."""
    formula: str | None = None
    rollup: RollupSummary | None = None
    format: str | None = None
    """How an AUTO_NUMBER is written: `INV-{0000}` has at least four digits."""

    @property
    def is_indexed(self) -> bool:
        """Return whether the field has a column; details are found by their master."""
        return self.indexed or self.type is FieldType.MASTER_DETAIL
