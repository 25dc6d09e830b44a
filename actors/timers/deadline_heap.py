"""A heap of near deadlines."""

import heapq

from core.shared.address import Address


class DeadlineHeap:
    """Contains each correlation at most once, with its latest known deadline."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, bytes]] = []
        self._due: dict[bytes, tuple[float, Address]] = {}

    def __len__(self) -> int:
        return len(self._due)

    def put(self, address: Address, due_at: float) -> None:
        """Add a deadline, replacing an earlier one of the same correlation."""
        key = address.key
        known = self._due.get(key)
        if known is not None and known[0] == due_at:
            return
        self._due[key] = (due_at, address)
        heapq.heappush(self._heap, (due_at, key))

    def take_due(self, now: float, limit: int) -> list[tuple[Address, float]]:
        """Remove and return due deadlines, the longest overdue first."""
        taken: list[tuple[Address, float]] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < limit:
            due_at, key = heapq.heappop(self._heap)
            known = self._due.get(key)
            if known is None or known[0] != due_at:
                continue  # replaced by another deadline
            del self._due[key]
            taken.append((known[1], due_at))
        return taken

    def earliest(self) -> float | None:
        while self._heap:
            due_at, key = self._heap[0]
            known = self._due.get(key)
            if known is not None and known[0] == due_at:
                return due_at
            heapq.heappop(self._heap)
        return None
