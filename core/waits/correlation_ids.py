"""Finding the two ids in what a sender sent: headers first, then the body."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from core.shared.address import check_id
from core.shared.json_path import MISSING, find, parse_path, without, without_path
from core.waits.spec import DEFAULT_IDS, IdFields


class CorrelationIds(msgspec.Struct, frozen=True):
    """Both ids and the names they were found under."""

    execution_id: str
    correlation_id: str
    fields: IdFields


class MissingId(msgspec.Struct, frozen=True):
    """What was looked for and not found, or was there and cannot be an id."""

    name: str
    searched_in: tuple[str, ...]
    found: str | None = None


def find_ids(
    headers: Mapping[str, str], body: Any, profiles: Collection[IdFields] = ()
) -> list[CorrelationIds] | MissingId:
    """Every pair of ids the known field names lead to, the default names first.

    Header names are looked up in lower case, as HTTP servers deliver them.
    """
    pairs: list[CorrelationIds] = []
    missing: MissingId | None = None
    for fields in dict.fromkeys((DEFAULT_IDS, *profiles)) if profiles else (DEFAULT_IDS,):
        correlation = _look(headers, body, fields.correlation_header, fields.correlation_field)
        execution = _look(headers, body, fields.execution_header, fields.execution_field)
        if isinstance(correlation, str) and isinstance(execution, str):
            if not pairs or not _is_among(execution, correlation, pairs):
                pairs.append(CorrelationIds(execution, correlation, fields))
        elif missing is None:
            missing = correlation if isinstance(correlation, MissingId) else None
            missing = missing or (execution if isinstance(execution, MissingId) else None)
    if pairs or missing is None:
        return pairs
    return missing


def _is_among(execution: str, correlation: str, pairs: list[CorrelationIds]) -> bool:
    return any((p.execution_id, p.correlation_id) == (execution, correlation) for p in pairs)


def may_hold_ids(raw: bytes, fields: IdFields) -> bool:
    """Whether ids may stand in this JSON. A look at its bytes spares most events a walk."""
    correlation, execution = _last_names(fields)
    # What is written with a backslash may be spelled in another way than it reads.
    return correlation in raw or execution in raw or b"\\" in raw


@lru_cache(maxsize=1024)
def _last_names(fields: IdFields) -> tuple[bytes, bytes]:
    """What any spelling of each path has in it: the last name on the way."""
    return _last_name(fields.correlation_field), _last_name(fields.execution_field)


def _last_name(path: str) -> bytes:
    names = [step for step in parse_path(path) or () if isinstance(step, str)]
    return (names[-1] if names else path).encode()


def without_ids(body: Any, fields: IdFields) -> Any:
    """The body as it is stored: without the ids that routed it."""
    if not isinstance(body, dict | list):
        return body
    places = (fields.correlation_field, fields.execution_field)
    for path in places:
        if not path.isidentifier():  # a plain name is taken out below, wherever it stands
            body = without_path(body, path)
    return without(body, places)


def _look(headers: Mapping[str, str], body: Any, header: str, path: str) -> str | MissingId:
    value: Any = headers.get(header.lower(), MISSING) if headers else MISSING
    if value is MISSING:
        value = find(body, path)
    found = None if value is MISSING or value is None else check_id(value)
    if found is not None:
        return found
    places = (f"header {header}", f"body field {path}")
    if value is MISSING or value is None:
        return MissingId(path, places)
    return MissingId(path, places, type(value).__name__)
