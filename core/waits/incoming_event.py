"""Incoming events: finds their two ids and turns them into offers to correlations."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from core.shared.address import Address, check_id, id_problem
from core.shared.json_path import MISSING, find, parse_path, without, without_path
from core.shared.media_types import JSON
from core.waits.messages import Offer, Reason, Verdict
from core.waits.spec import DEFAULT_IDS, IdFields, Source
from core.waits.state import ParkedEvent


class IncomingEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as its sender sent it. Header names are in lower case.

    `channel` and `label` say where it came from; `event_id` is the sender's id, if there is one.
    """

    source: Source
    label: str
    raw: bytes
    body: Any
    headers: dict[str, str]
    channel: str = "api"
    event_id: str | None = None
    content_type: str = JSON

    def __repr__(self) -> str:
        """Leave out headers and data: they may be secret."""
        return f"IncomingEvent({self.source.value}, {self.channel}/{self.label}, {self.event_id!r})"


class CorrelationIds(msgspec.Struct, frozen=True):
    execution_id: str
    correlation_id: str
    fields: IdFields


class MissingId(msgspec.Struct, frozen=True):
    """An id that was not found, or whose value cannot be an id."""

    name: str
    places: str
    """Where an event may have the id."""
    problem: str = "is missing"

    def __str__(self) -> str:
        return f"{self.name} {self.problem}: send it in {self.places}"


class MissingIds(msgspec.Struct, frozen=True):
    """Those of the two ids that an event lacks."""

    ids: tuple[MissingId, ...]


def find_ids(
    headers: Mapping[str, str], body: Any, id_fields: Collection[IdFields] = ()
) -> list[CorrelationIds] | MissingIds:
    """Find every pair of ids under the default and the given field names, the default first.

    Headers take precedence over the body. Header names must be in lower case.
    """
    pairs: list[CorrelationIds] = []
    missing: MissingIds | None = None
    for fields in dict.fromkeys((DEFAULT_IDS, *id_fields)) if id_fields else (DEFAULT_IDS,):
        correlation = _look(headers, body, fields.correlation_header, fields.correlation_field)
        execution = _look(headers, body, fields.execution_header, fields.execution_field)
        if isinstance(correlation, str) and isinstance(execution, str):
            if not pairs or not _is_among(execution, correlation, pairs):
                pairs.append(CorrelationIds(execution, correlation, fields))
        elif missing is None:
            found = (correlation, execution)
            missing = MissingIds(tuple(one for one in found if isinstance(one, MissingId)))
    if pairs or missing is None:
        return pairs
    return missing


def _is_among(execution: str, correlation: str, pairs: list[CorrelationIds]) -> bool:
    return any((p.execution_id, p.correlation_id) == (execution, correlation) for p in pairs)


def may_hold_ids(raw: bytes, fields: IdFields) -> bool:
    """Return whether this JSON may contain ids. Searching the bytes is cheaper than a walk."""
    correlation, execution = _last_names(fields)
    # A name with a backslash escape is spelled differently from its value.
    return correlation in raw or execution in raw or b"\\" in raw


@lru_cache(maxsize=1024)
def _last_names(fields: IdFields) -> tuple[bytes, bytes]:
    """Return the last name of each path: every spelling of the path contains it."""
    return _last_name(fields.correlation_field), _last_name(fields.execution_field)


def _last_name(path: str) -> bytes:
    names = [step for step in parse_path(path) or () if isinstance(step, str)]
    return (names[-1] if names else path).encode()


def without_ids(body: Any, fields: IdFields) -> Any:
    """Return the body without the ids, as it is stored."""
    if not isinstance(body, dict | list):
        return body
    places = (fields.correlation_field, fields.execution_field)
    for path in places:
        if not path.isidentifier():  # `without` removes plain names at any depth
            body = without_path(body, path)
    return without(body, places)


def _look(headers: Mapping[str, str], body: Any, header: str, path: str) -> str | MissingId:
    value: Any = headers.get(header.lower(), MISSING) if headers else MISSING
    if value is MISSING:
        value = find(body, path)
    places = f"header {header} or body field {path}"
    if value is MISSING or value is None:
        return MissingId(path, places)
    found = check_id(value)
    return MissingId(path, places, id_problem(value)) if found is None else found


def deduplication_id_of(event: IncomingEvent, turn_id: str) -> str:
    """Return the id that deduplicates an event: the sender's, or one for this request."""
    return f"{event.channel}/{event.label}/{event.event_id or turn_id}"


def offer_of(
    address: Address,
    fields: IdFields,
    event: IncomingEvent,
    turn_id: str,
    *,
    by_token: bool = False,
) -> Offer:
    """Make the offer to a correlation: the data without the ids that routed it."""
    return Offer(
        address=address,
        turn_id=turn_id,
        event_id=deduplication_id_of(event, turn_id),
        source=event.source,
        label=event.label,
        payload=_data_of(event, fields),
        content_type=event.content_type,
        by_token=by_token,
    )


def _data_of(event: IncomingEvent, fields: IdFields) -> bytes:
    """Return the data without ids; data that contains none stays the same bytes."""
    if not may_hold_ids(event.raw, fields):
        return event.raw
    cleaned = without_ids(event.body, fields)
    return event.raw if cleaned == event.body else msgspec.json.encode(cleaned)


def unaddressed_event(tenant: int, event: IncomingEvent, turn_id: str, now: float) -> ParkedEvent:
    """Make the inbox entry of an event that names no correlation."""
    return ParkedEvent(
        address=Address(tenant, "", ""),
        turn_id=turn_id,
        event_id=deduplication_id_of(event, turn_id),
        source=event.source,
        label=event.label,
        payload=event.raw,
        content_type=event.content_type,
        verdict=Verdict.REJECTED,
        reason=Reason.MISSING_ID,
        at=now,
    )
