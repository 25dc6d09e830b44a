"""What Postgres has of many correlations, read directly."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from cli.shell.errors import CommandError
from core.access.permissions import split_key
from core.shared.address import Address
from core.waits.state import Wait
from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.postgres.queries import load
from storage.waits.wait_rows import entry_of, parked_of, wait_of
from tools.chaos.reconcile import ObservedEvent, StoredCorrelation
from tools.chaos.requests import CorrelationKey

_Q = load("tools.chaos")
_BATCH_SIZE = 2_000


class DatabaseAudit:
    """The rows of one tenant."""

    def __init__(self, pool: Pool, tenant: int) -> None:
        self._pool = pool
        self._tenant = tenant

    async def read(
        self, correlation_keys: Iterable[CorrelationKey]
    ) -> dict[CorrelationKey, StoredCorrelation]:
        """Read what is stored of each of these correlations, which may be nothing."""
        found = {}
        for by_wait_key in self._batches(correlation_keys):
            rows = {row["wait_key"]: row for row in await self._fetch("audit_waits", by_wait_key)}
            lines, parked = defaultdict(list), defaultdict(list)
            for row in await self._fetch("audit_lines", by_wait_key):
                entry = entry_of(row)
                line = _observed(entry.seq, entry.kind, entry.event_id, entry.payload)
                lines[row["wait_key"]].append(line)
            for row in await self._fetch("audit_parked", by_wait_key):
                event = parked_of(row)
                line = _observed(0, event.verdict, event.event_id, event.payload)
                parked[row["wait_key"]].append(line)
            for wait_key, correlation_key in by_wait_key.items():
                row = rows.get(wait_key)
                found[correlation_key] = stored_correlation(
                    row and wait_of(row),
                    lines[wait_key],
                    parked[wait_key],
                    resumed=bool(row and row["resumed"]),
                )
        return found

    async def waiting(self, correlation_keys: Iterable[CorrelationKey]) -> list[CorrelationKey]:
        """Return those of these correlations that have not ended."""
        waiting = []
        for by_wait_key in self._batches(correlation_keys):
            rows = await self._fetch("audit_waiting", by_wait_key)
            waiting += [by_wait_key[row["wait_key"]] for row in rows]
        return waiting

    def _batches(
        self, correlation_keys: Iterable[CorrelationKey]
    ) -> Iterator[dict[bytes, CorrelationKey]]:
        every = list(correlation_keys)
        for start in range(0, len(every), _BATCH_SIZE):
            batch = every[start : start + _BATCH_SIZE]
            yield {Address(self._tenant, *one).key: one for one in batch}

    async def _fetch(self, query: str, by_wait_key: dict[bytes, CorrelationKey]) -> list[Any]:
        return await self._pool.fetch(_Q[query], list(by_wait_key))


@asynccontextmanager
async def open_database_audit(dsn: str, key: str) -> AsyncIterator[DatabaseAudit]:
    """Open an audit of the tenant that an API key belongs to."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="chaos", max_size=2))
    try:
        yield DatabaseAudit(pool, await _tenant_of(pool, key))
    finally:
        await pool.close()


def stored_correlation(
    wait: Wait | None,
    lines: Sequence[ObservedEvent] = (),
    parked: Sequence[ObservedEvent] = (),
    *,
    resumed: bool = False,
) -> StoredCorrelation:
    if wait is None:
        return StoredCorrelation(parked=tuple(parked))
    return StoredCorrelation(
        status=wait.status,
        end_number=wait.ending.seq if wait.ending else None,
        resumed=resumed,
        counted=tuple(mark.event_id for mark in wait.marks if mark.event_id),
        lines=tuple(lines),
        parked=tuple(parked),
    )


def read_origin(payload: bytes) -> dict[str, Any]:
    """Read which scenario and which event a payload says it belongs to."""
    return origin_of(json.loads(payload)) if payload else {}


def origin_of(data: Any) -> dict[str, Any]:
    """Read the origin of parsed data; data that no scenario sent has no valid origin."""
    if not isinstance(data, dict):
        return {"of": f"nobody ({data!r})"}
    return {"of": str(data.get("of")), "id": str(data.get("id"))}


def _observed(number: int, kind: str, event_id: str, payload: bytes) -> ObservedEvent:
    return ObservedEvent(number=number, kind=kind, event_id=event_id, **read_origin(payload))


async def _tenant_of(pool: Pool, key: str) -> int:
    parts = split_key(key)
    credential = await keys.find_key(pool, parts[0]) if parts else None
    if credential is None:
        raise CommandError("The database does not know this key: is it that of this instance?")
    return credential.tenant
