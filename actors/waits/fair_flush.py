"""What a shard stores next where several tenants send.

Whoever comes while a flush is under way waits for all of it, and then for the flush it is in. So
flushes are short there, and tenants with little to store do not wait for the rows of the others.
"""

from collections.abc import Iterable

from actors.waits.turn import Unsaved
from core.shared.tenant_share import round_robin

ROWS = 128
"""Most rows of one flush."""
BYTES = 512 * 1024
"""Most bytes of one flush, if it is more than one row."""
LIGHT_ROWS = 16
"""A tenant with no more rows than this, and no more bytes, has little to store."""
LIGHT_BYTES = 64 * 1024


class SharedFlush:
    """Chooses rows: those of tenants with little alone, then some of everybody's, and so on."""

    def __init__(self) -> None:
        self._was_light = False

    def choose(self, unsaved: Iterable[Unsaved], max_rows: int) -> list[Unsaved]:
        """Choose what the next flush stores, at least one row."""
        by_tenant: dict[int, list[Unsaved]] = {}
        for one in unsaved:
            by_tenant.setdefault(one.change.tenant, []).append(one)
        most = min(ROWS, max_rows)
        light = {tenant for tenant, rows in by_tenant.items() if _is_light(rows)}
        self._was_light = not self._was_light and 0 < len(light) < len(by_tenant)
        tenants = light if self._was_light else by_tenant.keys()
        waiting = ((tenant, one) for tenant in tenants for one in by_tenant[tenant])
        return _fitting(round_robin(waiting, most))


def _is_light(rows: list[Unsaved]) -> bool:
    return len(rows) <= LIGHT_ROWS and sum(one.weight for one in rows) <= LIGHT_BYTES


def _fitting(rows: list[Unsaved]) -> list[Unsaved]:
    """Leave out what is too heavy beside the others; the first is in, whatever it weighs."""
    chosen: list[Unsaved] = []
    weight = 0
    for one in rows:
        if not chosen or weight + one.weight <= BYTES:
            chosen.append(one)
            weight += one.weight
    return chosen
