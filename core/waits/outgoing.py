"""What the world is told when a correlation ends: decided with the end, stored with it."""

import msgspec

from core.waits.state import Wait
from core.waits.strategy import Status

_TYPES = {status: f"muster.correlation.{status}" for status in Status}


class OutgoingEvent(msgspec.Struct, frozen=True, gc=False):
    """One event to publish. Its data is read from the correlation when it is sent."""

    topic: str
    key: str
    type: str


def completion_events(before: Wait | None, after: Wait | None) -> tuple[OutgoingEvent, ...]:
    """The events that this step leads to."""
    if after is None or after.ending is None or after.spec.publish is None:
        return ()
    if before is not None and before.ending is not None:
        return ()
    return (OutgoingEvent(after.spec.publish, after.address.scoped_id, _TYPES[after.status]),)
