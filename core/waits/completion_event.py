"""The completion event of a correlation: what is stored with its end, and what is published.

It is published as a CloudEvent in binary mode.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.shared.media_types import JSON
from core.shared.timestamps import to_iso
from core.waits.output import aggregate, payloads_of
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome, Status

_TYPES = {status: f"muster.correlation.{status}" for status in Status}


class OutgoingEvent(msgspec.Struct, frozen=True, gc=False):
    """One event to publish. Its data is read from the correlation when the event is sent."""

    topic: str
    key: str
    type: str


def completion_events(before: Wait | None, after: Wait | None) -> tuple[OutgoingEvent, ...]:
    """Return the events to publish if the wait ended between `before` and `after`."""
    if after is None or after.ending is None or after.spec.publish is None:
        return ()
    if before is not None and before.ending is not None:
        return ()
    return (OutgoingEvent(after.spec.publish, after.address.scoped_id, _TYPES[after.status]),)


class CompletionMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    key: str
    type: str
    event_id: str
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def build_completion(
    wait: Wait, counted: Sequence[WaitLogEntry], topic: str, type_: str, source: str
) -> CompletionMessage:
    """Build the message; its event id never changes, so receivers can drop repeated messages."""
    address = wait.address
    event_id = f"{address.scoped_id}/{wait.ending.seq if wait.ending else 0}"
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": event_id,
        "ce_source": source,
        "ce_type": type_,
        "ce_subject": address.scoped_id,
        "ce_correlationid": address.correlation_id,
        "ce_executionid": address.execution_id,
        "content-type": JSON,
    }
    return CompletionMessage(
        topic=topic,
        key=address.scoped_id,
        type=type_,
        event_id=event_id,
        value=msgspec.json.encode(_document(wait, counted)),
        headers=tuple((name, value.encode()) for name, value in attributes.items()),
    )


def _document(wait: Wait, counted: Sequence[WaitLogEntry]) -> dict[str, Any]:
    received = [name for name, outcome in wait.outcomes.items() if outcome is Outcome.RECEIVED]
    document: dict[str, Any] = {
        "executionId": wait.address.execution_id,
        "correlationId": wait.address.correlation_id,
        "nodeId": wait.node_id,
        "status": wait.status,
        "receivedEvents": received,
        "registeredAt": to_iso(wait.opened_at),
    }
    if wait.ending is not None:
        document |= {
            "endedAt": to_iso(wait.ending.at),
            "reason": wait.ending.reason,
            "partial": wait.ending.partial,
            "missingEvents": wait.ending.missing,
        }
    if wait.status is Status.COMPLETED:
        document["output"] = aggregate(wait, payloads_of(wait, counted))
    return document
