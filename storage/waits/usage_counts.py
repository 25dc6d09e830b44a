"""Counts what a flush of waits stores, by tenant and kind."""

from collections.abc import Iterable, Sequence

from core.access.usage_counter import UsageCounter
from core.shared.quotas import StoredKind
from core.waits.state import ParkedEvent
from storage.waits.flush import NO_VERSION, WaitChange

WAITS, WAIT_EVENTS, INBOX = StoredKind.WAITS, StoredKind.WAIT_EVENTS, StoredKind.INBOX


def count_changes(counter: UsageCounter, changes: Sequence[WaitChange], kept: set[bytes]) -> None:
    """Count the waits, log entries and inbox events that a shard's flush stored."""
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
    __slots__ = ("line_bytes", "lines", "waits")

    def __init__(self) -> None:
        self.waits = self.lines = self.line_bytes = 0


def count_parked(counter: UsageCounter, events: Iterable[ParkedEvent]) -> None:
    for event in events:
        counter.add(event.address.tenant, INBOX, 1, len(event.payload))


def _count_taken_from_inbox(counter: UsageCounter, change: WaitChange) -> None:
    """Subtract the inbox events that a wait has taken."""
    taken = set(change.taken_from_inbox)
    sizes = [len(entry.payload) for entry in change.entries if entry.event_id in taken]
    counter.add(change.tenant, INBOX, -len(taken), -sum(sizes))
