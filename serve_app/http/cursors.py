"""Cursors of listings: opaque to callers, and validated when they come back."""

import base64
import math
import struct
from collections.abc import Sequence

from core.shared.errors import InvalidError
from core.waits.state import Wait
from storage.dispatch.groups import FRONT, START, GroupPosition, PoolGroupKey
from storage.postgres.bounded_scan import ScanPage

_WAIT = struct.Struct(">d16s")
_EXPECTED = "the nextCursor of an earlier page"


def next_wait_cursor(found: ScanPage[Wait, tuple[float, bytes]], limit: int) -> str | None:
    """Return the cursor of the next page of waits; None if this page is the last."""
    if len(found.items) == limit:
        last = found.items[-1]
        return wait_cursor(last.opened_at, last.address.key)
    return None if found.scanned_to is None else wait_cursor(*found.scanned_to)


def next_id_cursor(ids: Sequence[int], looked_to: int | None, limit: int) -> str | None:
    """Return the cursor of the next page of a listing by id; None if this page is the last."""
    place = ids[-1] if len(ids) == limit else looked_to
    return None if place is None else str(place)


def wait_cursor(opened_at: float, key: bytes) -> str:
    """Encode the position after a wait."""
    return base64.urlsafe_b64encode(_WAIT.pack(opened_at, key)).decode()


def read_wait_cursor(text: str | None) -> tuple[float, bytes] | None:
    """Decode the position after a wait; raise InvalidError if the cursor is malformed."""
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
    """Decode the id in a cursor; raise InvalidError if the cursor is malformed."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError("cursor", _EXPECTED)
    return int(text)


def group_cursor(group: PoolGroupKey) -> str:
    """Encode the position after a message group."""
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
    """Encode the position after a job of a message group."""
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
