"""Where a listing goes on: opaque to callers, checked when it comes back."""

import base64
import math
import struct

from core.errors import InvalidError
from core.wait import Wait

_WAIT = struct.Struct(">d16s")
_EXPECTED = "the nextCursor of an earlier page"


def wait_cursor(wait: Wait) -> str:
    """The place after this wait."""
    return base64.urlsafe_b64encode(_WAIT.pack(wait.opened_at, wait.address.key)).decode()


def read_wait_cursor(text: str | None) -> tuple[float, bytes] | None:
    """The place that a cursor names."""
    if text is None:
        return None
    try:
        opened_at, key = _WAIT.unpack(base64.b64decode(text, b"-_", validate=True))
    except (ValueError, struct.error):
        raise InvalidError("cursor", _EXPECTED) from None
    if not 0 <= opened_at < 1e11 or math.isnan(opened_at):
        raise InvalidError("cursor", _EXPECTED)
    return opened_at, key


def read_id_cursor(text: str | None) -> int | None:
    """The id that a cursor names."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError("cursor", _EXPECTED)
    return int(text)
