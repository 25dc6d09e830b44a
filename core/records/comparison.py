"""How values compare: which are the same, texts that sort as they do, hashes of unique ones."""

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from core.records.field import FieldDefinition, FieldType

INDEXED_CHARS = 200
"""Of a text; what follows is compared in the document."""
HASH_BYTES = 16

_encode = msgspec.json.Encoder(order="deterministic").encode
_DOUBLE, _BITS = struct.Struct(">d"), struct.Struct(">Q")
_EXACT = frozenset({FieldType.INTEGER, FieldType.LONG, FieldType.AUTO_NUMBER})


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the former values of the fields that differ; null for those that had none."""
    return {
        name: before.get(name)
        for name in sorted(before.keys() | after.keys())
        if not is_same(before.get(name), after.get(name))
    }


def is_same(left: Any, right: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            is_same(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def unique_hash(value: Any) -> bytes:
    """Hash a value so that equal values have the same hash: 1 and 1.0, but not 1 and "1"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return blake2b(_encode(value), digest_size=HASH_BYTES).digest()


def indexed_text(field: FieldDefinition, value: Any) -> str | None:
    """Return the text of an indexed value; lists and objects have none.

    Texts in the order of their bytes are in the order of the values of one field.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() if field.type in _EXACT:
            return f"{value + 2**63:016x}"
        case int() | float():
            return _sortable(float(value))
        case str():
            return value[:INDEXED_CHARS]
        case _:
            return None


def _sortable(number: float) -> str:
    """Return the bits of a double as text: without the sign they sort as the number does."""
    (bits,) = _BITS.unpack(_DOUBLE.pack(number + 0.0))
    flipped = bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63
    return f"{flipped:016x}"
