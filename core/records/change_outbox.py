"""What is stored beside a change, so that others are told of it."""

import msgspec

from core.records.record import RecordAddress, RecordChange

_ROW_WEIGHT = 150


class OutgoingChange(msgspec.Struct, frozen=True, gc=False):
    """A row that points at a change to tell of."""

    address: RecordAddress
    change_id: str
    topic: str | None = None
    """The Kafka topic to publish it to; None: it is an event for subscriptions."""

    @property
    def weight(self) -> int:
        return _ROW_WEIGHT


def outbox_rows(
    change: RecordChange, followed: frozenset[str], topic: str | None
) -> tuple[OutgoingChange, ...]:
    """Return the rows that are stored together with a change: none if nobody is to be told.

    `followed` are the kinds of changes whose events a subscription is bound to, and `topic` is the
    Kafka topic of changes, if there is Kafka.
    """
    rows: tuple[OutgoingChange, ...] = ()
    if topic is not None:
        rows = (OutgoingChange(change.address, change.change_id, topic),)
    if change.kind in followed:
        rows = (*rows, OutgoingChange(change.address, change.change_id))
    return rows
