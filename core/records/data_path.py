"""Data paths: which value a record leads to over its relationships.

`order_id.customer_id.email` follows two relationships and reads a field of what it finds.
`customer_id.SCRIPT[credit-check].score` runs a script on the customer and reads a field of its
result; what follows reads on in the result.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

MAX_HOPS = 10
MAX_PATH_CHARS = 1_000
NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}"

_NAME = re.compile(NAME)
_SCRIPT = re.compile(r"SCRIPT\[\s*([A-Za-z0-9_-]{1,100})\s*\]")
_SCRIPT_KEYS = frozenset({"type", "scriptId", "outputField"})


class InvalidDataPathError(ValueError):
    """The text is no data path; the message says where and why."""


class SegmentType(StrEnum):
    FIELD = "FIELD"
    RELATIONSHIP = "RELATIONSHIP"
    SCRIPT = "SCRIPT"


class DataPathSegment(NamedTuple):
    """One step: a field to read or to follow, or a script with the field of its result."""

    field_name: str
    type: SegmentType = SegmentType.FIELD
    script_id: str | None = None

    def __str__(self) -> str:
        script = "" if self.script_id is None else f"SCRIPT[{self.script_id}]."
        return f"{script}{self.field_name}"


class DataPath(NamedTuple):
    """A path that begins at a record. It holds at least one segment."""

    segments: tuple[DataPathSegment, ...]

    def __str__(self) -> str:
        return ".".join(map(str, self.segments))

    @property
    def terminal(self) -> DataPathSegment:
        """Return the segment that the value is read from."""
        return self.segments[-1]

    @property
    def relationships(self) -> tuple[DataPathSegment, ...]:
        """Return the segments that are followed in the database: those before a script."""
        return tuple(one for one in self.segments if one.type is SegmentType.RELATIONSHIP)

    @property
    def has_script(self) -> bool:
        return any(one.type is SegmentType.SCRIPT for one in self.segments)


def parse_data_path(expression: str) -> DataPath:
    """Parse the text form of a path.

    Raises:
        InvalidDataPathError: It is empty, too long, or a segment is not a name.
    """
    if len(expression) > MAX_PATH_CHARS:
        raise InvalidDataPathError(f"a data path has {MAX_PATH_CHARS} characters at most")
    parts: list[DataPathSegment] = []
    script: str | None = None
    for number, text in enumerate(map(str.strip, expression.split(".")), 1):
        found = None if script is not None else _SCRIPT.fullmatch(text)
        if found is not None:
            script = found[1]
            continue
        parts.append(_segment(text, script, f"segment {number}"))
        script = None
    if script is not None:
        raise InvalidDataPathError(f"SCRIPT[{script}] needs the field of its result behind it")
    return _typed(parts)


def parse_segments(segments: Sequence[Any]) -> DataPath:
    """Parse the JSON form: names, and objects such as {"type", "scriptId", "outputField"}.

    Raises:
        InvalidDataPathError: It is empty, or a segment is neither.
    """
    parts: list[DataPathSegment] = []
    for number, given in enumerate(segments, 1):
        place = f"segment {number}"
        match given:
            case str():
                parts.append(_segment(given.strip(), None, place))
            case {"type": "SCRIPT", "scriptId": str(script), "outputField": str(field)} if (
                given.keys() == _SCRIPT_KEYS
            ):
                if not _SCRIPT.fullmatch(f"SCRIPT[{script}]"):
                    raise InvalidDataPathError(f"{place}: {script!r} is not the id of a script")
                parts.append(_segment(field, script, place))
            case _:
                raise InvalidDataPathError(
                    f"{place}: expected a field name, or type SCRIPT with scriptId and outputField"
                )
    if not parts:
        raise InvalidDataPathError("a data path has at least one segment")
    return _typed(parts)


def _segment(name: str, script: str | None, place: str) -> DataPathSegment:
    if not name:
        raise InvalidDataPathError(f"{place} is empty")
    if not _NAME.fullmatch(name):
        raise InvalidDataPathError(
            f"{place}: {name[:100]!r} is not a field name (letters, digits and _)"
        )
    kind = SegmentType.FIELD if script is None else SegmentType.SCRIPT
    return DataPathSegment(name, kind, script)


def _typed(parts: list[DataPathSegment]) -> DataPath:
    """Mark what is followed: all before the last segment and before the first script."""
    hops = len(parts) - 1
    if hops > MAX_HOPS:
        raise InvalidDataPathError(f"a data path has {MAX_HOPS} hops at most; this one has {hops}")
    scripts = (i for i, one in enumerate(parts) if one.type is SegmentType.SCRIPT)
    followed = min(next(scripts, hops), hops)
    hop = SegmentType.RELATIONSHIP
    return DataPath((*(one._replace(type=hop) for one in parts[:followed]), *parts[followed:]))
