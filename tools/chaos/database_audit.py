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
from tools.chaos.reconcile import Kept, Line, Place
from tools.chaos.stored_waits import Record


class Books:
    """The rows of one tenant."""

    def __init__(self, pool: Pool, tenant: int) -> None:
        self._pool = pool
        self._tenant = tenant

    async def read(self, places: Iterable[Place]) -> dict[Place, Kept]:
        """What was kept of these correlations."""
        addresses = [Address(self._tenant, *place) for place in places]
        records = await stored_waits.read_records(self._pool, addresses)
        return {_place(address): kept_of(record) for address, record in records.items()}

    async def waiting(self, places: Iterable[Place]) -> list[Place]:
        """Which of these correlations have not ended."""
        addresses = [Address(self._tenant, *place) for place in places]
        return [
            _place(address) for address in await stored_waits.still_waiting(self._pool, addresses)
        ]


@asynccontextmanager
async def open_books(dsn: str, key: str) -> AsyncIterator[Books]:
    """The rows of the tenant that an API key belongs to."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="chaos", max_size=2))
    try:
        yield Books(pool, await _tenant_of(pool, key))
    finally:
        await pool.close()


def kept_of(record: Record) -> Kept:
    """One correlation's rows, as the account reads them."""
    wait = record.wait
    parked = tuple(
        Line(number=0, kind=event.verdict, event_id=event.event_id, **signature(event.payload))
        for event in record.parked
    )
    if wait is None:
        return Kept(parked=parked)
    return Kept(
        status=wait.status,
        end_number=wait.ending.seq if wait.ending else None,
        resumed=record.resumed,
        counted=tuple(mark.event_id for mark in wait.marks if mark.event_id),
        lines=tuple(
            Line(
                number=entry.seq,
                kind=entry.kind,
                event_id=entry.event_id,
                **signature(entry.payload),
            )
            for entry in record.entries
        ),
        parked=parked,
    )


def signature(payload: bytes) -> dict[str, Any]:
    """Whose data it says it is."""
    return signature_of(json.loads(payload)) if payload else {}


def signature_of(data: Any) -> dict[str, Any]:
    """The same, of data that was read already; what is not ours shows as nobody's."""
    if not isinstance(data, dict):
        return {"of": f"nobody ({data!r})"}
    return {"of": str(data.get("of")), "id": str(data.get("id"))}


def _place(address: Address) -> Place:
    return address.execution_id, address.correlation_id


async def _tenant_of(pool: Pool, key: str) -> int:
    parts = split_key(key)
    credential = await keys.find_key(pool, parts[0]) if parts else None
    if credential is None:
        raise CommandError("The database does not know this key: is it that of this instance?")
    return credential.tenant
