"""The events to publish when a correlation ends, stored in the same transaction as the end."""

import msgspec

from core.waits.state import Wait
from core.waits.strategy import Status

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
