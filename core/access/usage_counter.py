"""Counts what a process has stored for each tenant since its last report."""

from typing import TypeAlias

from core.shared.quotas import StoredKind

UsageCounts: TypeAlias = dict[tuple[int, StoredKind], tuple[int, int]]
"""Rows and bytes by tenant and kind."""

# Estimated bytes of a row besides its payload: columns, index entries, room for updates.
ROW_BYTES = {
    StoredKind.WAITS: 1_000,
    StoredKind.WAIT_EVENTS: 200,
    StoredKind.INBOX: 400,
    StoredKind.EVENTS: 500,
    StoredKind.JOBS: 600,
    StoredKind.DEAD_LETTERS: 400,
}


class UsageCounter:
    """Adds up rows and bytes. Cheap enough for every flush."""

    def __init__(self) -> None:
        self._counts: UsageCounts = {}

    def add(self, tenant: int, kind: StoredKind, rows: int, payload: int) -> None:
        """Count rows with their payload bytes; negative numbers count rows that were removed."""
        known = self._counts.get((tenant, kind), (0, 0))
        size = payload + rows * ROW_BYTES[kind]
        self._counts[tenant, kind] = (known[0] + rows, known[1] + size)

    def take(self, limit: int) -> UsageCounts:
        """Hand over the counts of up to `limit` pairs of tenant and kind."""
        taken = {key: self._counts[key] for key in list(self._counts)[:limit]}
        for key in taken:
            del self._counts[key]
        return taken

    def put_back(self, counts: UsageCounts) -> None:
        """Count again what could not be reported."""
        for key, (rows, size) in counts.items():
            known = self._counts.get(key, (0, 0))
            self._counts[key] = (known[0] + rows, known[1] + size)
