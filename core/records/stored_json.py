"""Documents as Postgres stores them: numbers written out, so that they come back as they were.

Postgres writes 1e30 as a whole number of 31 digits, which would be read as an integer. With a
fraction of .0 it stays a double.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
# May also stand within a text, where it does no harm.
_EXPONENT = re.compile(rb"\de[-+]?\d")


def encode_document(data: Mapping[str, Any]) -> str:
    """Return a document as JSON without exponents, as long as Postgres will return it."""
    text = _encode(data)
    return (_encode(_written_out(data)) if _EXPONENT.search(text) else text).decode()


def _written_out(value: Any) -> Any:
    match value:
        case dict():
            return {name: _written_out(item) for name, item in value.items()}
        case list():
            return [_written_out(item) for item in value]
        case float():
            text = format(Decimal(repr(value)), "f")
            return msgspec.Raw((text if "." in text else f"{text}.0").encode())
        case _:
            return value
