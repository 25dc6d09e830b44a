"""Chooses what a shard stores next if several tenants send.

A new message waits for the flush under way, and then for the next. So flushes are short, and
tenants with few rows do not wait for the rows of others.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from core.shared.tenant_share import round_robin

ROWS = 128
"""The maximum number of rows in one flush."""
BYTES = 512 * 1024
"""The maximum size of a flush with more than one row."""
LIGHT_ROWS = 16
"""A tenant with at most this many rows, and few bytes, counts as light."""
LIGHT_BYTES = 64 * 1024


class Unstored(Protocol):
    """What is stored together: the rows of a wait, or a transaction."""

    @property
    def tenant(self) -> int: ...

    @property
    def weight(self) -> int: ...


U = TypeVar("U", bound=Unstored)


class SharedFlush(Generic[U]):
    """Alternates between rows of tenants with few rows and rows of all tenants."""

    def __init__(self) -> None:
        self._was_light = False

    def choose(self, unsaved: Iterable[U], max_rows: int) -> list[U]:
        """Choose the rows of the next flush, at least one."""
        by_tenant: dict[int, list[U]] = {}
        for one in unsaved:
            by_tenant.setdefault(one.tenant, []).append(one)
        most = min(ROWS, max_rows)
        light = {tenant for tenant, rows in by_tenant.items() if _is_light(rows)}
        self._was_light = not self._was_light and 0 < len(light) < len(by_tenant)
        tenants = light if self._was_light else by_tenant.keys()
        waiting = ((tenant, one) for tenant in tenants for one in by_tenant[tenant])
        return _fitting(round_robin(waiting, most))


def _is_light(rows: Sequence[Unstored]) -> bool:
    return len(rows) <= LIGHT_ROWS and sum(one.weight for one in rows) <= LIGHT_BYTES


def _fitting(rows: list[U]) -> list[U]:
    """Leave out rows above the size limit; the first row is always included."""
    chosen: list[U] = []
    weight = 0
    for one in rows:
        if not chosen or weight + one.weight <= BYTES:
            chosen.append(one)
            weight += one.weight
    return chosen
