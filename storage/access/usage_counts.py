"""How much a write stores, by tenant and kind."""

from collections.abc import Iterable, Sequence

from core.events.event import Event
from core.kafka.message import KafkaMessage
from core.shared.quotas import StoredKind
from core.shared.usage_counter import UsageCounter
from core.waits.state import ParkedEvent
from storage.events.events import EventKey, FlushResult
from storage.waits.flush import NO_VERSION, WaitChange

WAITS, WAIT_EVENTS, INBOX = StoredKind.WAITS, StoredKind.WAIT_EVENTS, StoredKind.INBOX


def count_changes(counter: UsageCounter, changes: Sequence[WaitChange], kept: set[bytes]) -> None:
    """Count what a flush of a shard stored: waits, lines of their logs, and the inbox."""
    by_tenant: dict[int, _Stored] = {}
    for change in changes:
        if change.wait is None:
            count_parked(counter, change.parked)
        elif change.key in kept:
            stored = by_tenant.get(change.tenant)
            if stored is None:
                stored = by_tenant[change.tenant] = _Stored()
            if change.stored_version == NO_VERSION:
                stored.waits += 1
            for entry in change.entries:
                stored.lines += 1
                stored.line_bytes += len(entry.payload)
            if change.taken_from_inbox:
                _count_taken_from_inbox(counter, change)
            if change.parked:
                count_parked(counter, change.parked)
    for tenant, stored in by_tenant.items():
        counter.add(tenant, WAITS, stored.waits, 0)
        counter.add(tenant, WAIT_EVENTS, stored.lines, stored.line_bytes)


class _Stored:
    """What one flush stored for one tenant."""

    __slots__ = ("line_bytes", "lines", "waits")

    def __init__(self) -> None:
        self.waits = self.lines = self.line_bytes = 0


def count_parked(counter: UsageCounter, events: Iterable[ParkedEvent]) -> None:
    """Count events that go into the inbox."""
    for event in events:
        counter.add(event.address.tenant, INBOX, 1, len(event.payload))


def count_dead_letters(
    counter: UsageCounter, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
) -> None:
    """Count dead letters."""
    size = sum(len(record.value or b"") + len(record.key or b"") for record, _ in failed)
    counter.add(tenant, StoredKind.DEAD_LETTERS, len(failed), size)


def count_events(counter: UsageCounter, events: Iterable[Event], flushed: FlushResult) -> None:
    """Count events that were new, and the jobs that were made for them."""
    for event in events:
        if EventKey(event.tenant, event.event_id) in flushed.stored:
            counter.add(event.tenant, StoredKind.EVENTS, 1, len(event.data or b""))
    for job in flushed.jobs:
        counter.add(job.tenant, StoredKind.JOBS, 1, 0)


def _count_taken_from_inbox(counter: UsageCounter, change: WaitChange) -> None:
    """Take back what was counted for events that a wait has taken up."""
    taken = set(change.taken_from_inbox)
    sizes = [len(entry.payload) for entry in change.entries if entry.event_id in taken]
    counter.add(change.tenant, INBOX, -len(taken), -sum(sizes))
