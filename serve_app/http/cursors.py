"""Cursors of listings: opaque to callers, and validated when they come back."""

import base64
import math
import struct

from core.shared.errors import InvalidError
from storage.dispatch.groups import FRONT, START, GroupPosition, PoolGroupKey

_WAIT = struct.Struct(">d16s")
_EXPECTED = "the nextCursor of an earlier page"


def wait_cursor(position: tuple[float, bytes]) -> str:
    """Encode the position after a wait: when it was registered, and its key."""
    return base64.urlsafe_b64encode(_WAIT.pack(*position)).decode()


def read_wait_cursor(text: str | None) -> tuple[float, bytes] | None:
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
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError("cursor", _EXPECTED)
    return int(text)


def group_cursor(group: PoolGroupKey) -> str:
    return base64.urlsafe_b64encode(f"{group.pool_no}:{group.name}".encode()).decode()


def read_group_cursor(text: str | None) -> PoolGroupKey:
    """Decode the position after a message group; without a cursor, return the start."""
    if text is None:
        return START
    try:
        number, colon, name = base64.b64decode(text, b"-_", validate=True).decode().partition(":")
    except ValueError:
        raise InvalidError("cursor", _EXPECTED) from None
    if not (colon and name.isprintable() and _is_number(number)):
        raise InvalidError("cursor", _EXPECTED)
    return PoolGroupKey(int(number), name)


def group_job_cursor(place: GroupPosition) -> str:
    return f"{place.sequence}.{place.position}"


def read_group_job_cursor(text: str | None) -> GroupPosition:
    """Decode the position after a job of a message group; without a cursor, return the start."""
    if text is None:
        return FRONT
    sequence, dot, position = text.partition(".")
    if not (dot and _is_number(sequence, 10) and _is_number(position, 18)):
        raise InvalidError("cursor", _EXPECTED)
    if int(sequence) >= 2**31:
        raise InvalidError("cursor", _EXPECTED)
    return GroupPosition(int(sequence), int(position))


def _is_number(text: str, digits: int = 9) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits
