"""What Postgres has, read directly: the second of the three accounts."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from cli.shell.errors import CommandError
from core.access.permissions import split_key
from core.shared.address import Address
from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tools.chaos import stored_waits
from tools.chaos.reconcile import CorrelationKey, ObservedEvent, StoredCorrelation
from tools.chaos.stored_waits import CorrelationSnapshot


class DatabaseAudit:
    """The rows of one tenant."""

    def __init__(self, pool: Pool, tenant: int) -> None:
        self._pool = pool
        self._tenant = tenant

    async def read(
        self, correlation_keys: Iterable[CorrelationKey]
    ) -> dict[CorrelationKey, StoredCorrelation]:
        """Read what Postgres holds of these correlations."""
        addresses = [
            Address(self._tenant, *correlation_key) for correlation_key in correlation_keys
        ]
        records = await stored_waits.read_snapshots(self._pool, addresses)
        return {
            _correlation_key(address): stored_correlation(record)
            for address, record in records.items()
        }

    async def waiting(self, correlation_keys: Iterable[CorrelationKey]) -> list[CorrelationKey]:
        """Which of these correlations have not ended."""
        addresses = [
            Address(self._tenant, *correlation_key) for correlation_key in correlation_keys
        ]
        return [
            _correlation_key(address)
            for address in await stored_waits.still_waiting(self._pool, addresses)
        ]


@asynccontextmanager
async def open_database_audit(dsn: str, key: str) -> AsyncIterator[DatabaseAudit]:
    """Open an audit of the tenant that an API key belongs to."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="chaos", max_size=2))
    try:
        yield DatabaseAudit(pool, await _tenant_of(pool, key))
    finally:
        await pool.close()


def stored_correlation(record: CorrelationSnapshot) -> StoredCorrelation:
    """One correlation's rows, as the account reads them."""
    wait = record.wait
    parked = tuple(
        ObservedEvent(
            number=0, kind=event.verdict, event_id=event.event_id, **read_origin(event.payload)
        )
        for event in record.parked
    )
    if wait is None:
        return StoredCorrelation(parked=parked)
    return StoredCorrelation(
        status=wait.status,
        end_number=wait.ending.seq if wait.ending else None,
        resumed=record.resumed,
        counted=tuple(mark.event_id for mark in wait.marks if mark.event_id),
        lines=tuple(
            ObservedEvent(
                number=entry.seq,
                kind=entry.kind,
                event_id=entry.event_id,
                **read_origin(entry.payload),
            )
            for entry in record.entries
        ),
        parked=parked,
    )


def read_origin(payload: bytes) -> dict[str, Any]:
    """Whose data it says it is."""
    return origin_of(json.loads(payload)) if payload else {}


def origin_of(data: Any) -> dict[str, Any]:
    """Read the origin of parsed data; data that no scenario sent has no valid origin."""
    if not isinstance(data, dict):
        return {"of": f"nobody ({data!r})"}
    return {"of": str(data.get("of")), "id": str(data.get("id"))}


def _correlation_key(address: Address) -> CorrelationKey:
    return address.execution_id, address.correlation_id


async def _tenant_of(pool: Pool, key: str) -> int:
    parts = split_key(key)
    credential = await keys.find_key(pool, parts[0]) if parts else None
    if credential is None:
        raise CommandError("The database does not know this key: is it that of this instance?")
    return credential.tenant
