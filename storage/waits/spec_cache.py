"""Remembers which specs Postgres has, so that a flush sends only the others."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from core.waits.spec import WaitSpec
from core.waits.state import Wait
from storage.postgres.pool import Connection
from storage.postgres.queries import Q

MAX_KNOWN_SPECS = 10_000
_DAY = 86_400.0

# A row of type flushed_spec: tenant, digest, text, and the last deadline that it covers.
SpecRow: TypeAlias = tuple[int, bytes, str, float]


class KnownSpecs:
    """The specs that were stored. Forgetting one is harmless: it is sent again."""

    def __init__(self) -> None:
        self._covered: dict[tuple[int, bytes], float] = {}

    def unknown_to_postgres(self, waits: Iterable[Wait]) -> list[SpecRow]:
        """Return the specs that new waits need and Postgres lacks, sorted to prevent deadlocks.

        Each covers a day more than needed, so that a frequent spec is sent once a day.
        """
        rows: dict[tuple[int, bytes], SpecRow] = {}
        for wait in waits:
            spec = wait.spec
            key = (wait.address.tenant, spec.digest)
            if self._covered.get(key, 0.0) >= wait.expires_at:
                continue
            if key not in rows or rows[key][3] < wait.expires_at + _DAY:
                rows[key] = (*key, spec.text, wait.expires_at + _DAY)
        return [rows[key] for key in sorted(rows)]

    def remember(self, rows: Sequence[SpecRow]) -> None:
        if len(self._covered) + len(rows) > MAX_KNOWN_SPECS:
            self._covered.clear()
        for tenant, digest, _, last_deadline in rows:
            self._covered[tenant, digest] = last_deadline


async def restore_spec(conn: Connection, tenant: int, spec: WaitSpec, last_deadline: float) -> None:
    """Store a spec again that waits need and Postgres has lost."""
    await conn.execute(Q["restore_spec"], tenant, spec.digest, spec.text, last_deadline + _DAY)
