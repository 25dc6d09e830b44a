"""Reads waits: for shards that activate them, and for API callers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from core.shared.address import Address
from core.waits.messages import Reason
from core.waits.state import ParkedEvent, Wait, WaitLogEntry
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.waits.wait_rows import entry_of, parked_of, wait_of

LOG_BUDGET = 8 * 1024 * 1024
LEAST_KEY = b"\x00" * 16
MICROSECOND = 1e-6
# How many waits with one correlation id are searched for the one that an event may have meant.
ELSEWHERE_LIMIT = 16
# The most events, in number and bytes, that a registration takes from the inbox.
EARLY_EVENTS, EARLY_BYTES = 1_000, 16 * 1024 * 1024


class WaitLookup(NamedTuple):
    """A key to load. Only events that find no wait also ask for other waits."""

    key: bytes
    tenant: int
    has_event: bool


class LoadedWait(msgspec.Struct, gc=False):
    """Everything that Postgres has for one address."""

    wait: Wait | None = None
    sizes: dict[str, int] = {}
    """The size in bytes of each event that arrived before the wait."""
    refused: int = 0
    """How many such events were refused and stored."""
    elsewhere: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFilter:
    """A filter of waits; None matches all."""

    status: str | None = None
    execution_id: str | None = None
    strategy: str | None = None
    older_than: float | None = None

    @property
    def is_served(self) -> bool:
        return self.execution_id is not None or (self.status is None and self.strategy is None)


@dataclass(frozen=True, slots=True)
class WaitRow:
    """A wait with the columns that only its row has."""

    wait: Wait
    resumed_at: float | None
    resumed_by: str | None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some entries of a log, and whether more may follow."""

    entries: list[WaitLogEntry]
    more: bool


async def load_waits(conn: Connection | Pool, keys: Sequence[bytes]) -> dict[bytes, Wait]:
    rows = await conn.fetch(Q["load_waits"], list(keys))
    return {row["wait_key"]: wait_of(row) for row in rows}


async def load(conn: Connection | Pool, requests: Sequence[WaitLookup]) -> dict[bytes, LoadedWait]:
    """Read everything that a shard needs to activate these keys."""
    known = await load_waits(conn, [request.key for request in requests])
    found = {request.key: LoadedWait(known.get(request.key)) for request in requests}
    unknown = [request for request in requests if request.key not in known]
    lost = [request for request in requests if _is_lost(known.get(request.key))]
    if unknown or lost:
        await _size_early(conn, unknown + lost, found)
    offered = [request for request in unknown if request.has_event]
    if offered:
        await _find_elsewhere(conn, offered, found)
    return found


def _is_lost(wait: Wait | None) -> bool:
    return wait is not None and wait.spec.lost != b""


async def _size_early(
    conn: Connection | Pool, requests: list[WaitLookup], found: dict[bytes, LoadedWait]
) -> None:
    keys = [request.key for request in requests]
    for row in await conn.fetch(Q["size_early"], keys, 2 * EARLY_EVENTS):
        loaded = found[row["wait_key"]]
        if row["reason"] == Reason.TOO_MANY_EARLY:
            loaded.refused += 1
        else:
            loaded.sizes[row["event_id"]] = row["size"]


async def load_early(
    conn: Connection | Pool, keys: Sequence[bytes]
) -> dict[bytes, list[ParkedEvent]]:
    """Read the events that arrived before these waits, as many as a registration takes.

    There are more only if the settings allowed more earlier; the sweeper offers those.
    """
    found: dict[bytes, list[ParkedEvent]] = {}
    for row in await conn.fetch(Q["load_early"], list(keys), EARLY_EVENTS, EARLY_BYTES):
        found.setdefault(row["wait_key"], []).append(parked_of(row))
    return found


async def _find_elsewhere(
    conn: Connection | Pool, requests: list[WaitLookup], found: dict[bytes, LoadedWait]
) -> None:
    keys = [request.key for request in requests]
    tenants = [request.tenant for request in requests]
    lower = [key[:8] + b"\x00" * 8 for key in keys]
    upper = [key[:8] + b"\xff" * 8 for key in keys]
    rows = await conn.fetch(Q["find_elsewhere"], keys, tenants, lower, upper, ELSEWHERE_LIMIT)
    for row in rows:
        found[row["wait_key"]].elsewhere = row["execution_id"]


async def correlation_of_node(
    conn: Connection | Pool, address: Address, node_id: str
) -> str | None:
    """Return the correlation id that a node of this execution already has."""
    value: str | None = await conn.fetchval(
        Q["find_by_node"], address.tenant, address.execution_id, node_id
    )
    return value


async def read(pool: Pool, address: Address) -> WaitRow | None:
    row = await pool.fetchrow(Q["read_wait"], address.key, address.tenant)
    return WaitRow(wait_of(row), row["resumed_at"], row["resumed_by"]) if row else None


async def page(
    pool: Pool, tenant: int, chosen: WaitFilter, after: tuple[float, bytes] | None, limit: int
) -> ScanPage[Wait, tuple[float, bytes]]:
    """Read the next waits of a listing, newest first, within one bounded scan."""
    opened_at, key = after or (None, None)
    scanned_to = None
    if not chosen.is_served:
        # The previous scan has read all waits with the timestamp at which it ended.
        begin = opened_at - MICROSECOND if opened_at and key == LEAST_KEY else opened_at
        start = (tenant, begin, chosen.older_than)
        scanned_to = await bounded_scan.scan_end(pool, "look_back_at_waits", *start)
    rows = await pool.fetch(
        Q["list_waits"],
        tenant,
        chosen.status,
        chosen.execution_id,
        chosen.strategy,
        chosen.older_than,
        opened_at,
        key,
        limit,
        scanned_to,
    )
    # This scan has read all waits with that timestamp, so the next one starts after the least key.
    place = None if scanned_to is None else (scanned_to, LEAST_KEY)
    return ScanPage([wait_of(row) for row in rows], place)


async def read_log(pool: Pool, key: bytes, after: int, budget: int = LOG_BUDGET) -> LogPage:
    """Read the log entries after `after`; stop after the one that exceeds `budget` bytes."""
    rows = await pool.fetch(Q["read_log"], key, after, budget)
    entries = [entry_of(row) for row in rows]
    return LogPage(entries, more=size_of(entries) >= budget)


async def read_lines(pool: Pool, key: bytes, numbers: list[int]) -> list[WaitLogEntry]:
    return [entry_of(row) for row in await pool.fetch(Q["read_lines"], key, numbers)]


async def read_counted(pool: Pool, wait: Wait) -> list[WaitLogEntry]:
    """Read the log entries whose data counts: one for each event that arrived."""
    numbers = [mark.seq for mark in wait.marks if mark.event_id]
    return await read_lines(pool, wait.address.key, numbers) if numbers else []


def size_of(entries: Iterable[WaitLogEntry]) -> int:
    return sum(len(entry.payload) for entry in entries)


async def read_counted_of_all(pool: Pool, waits: Sequence[Wait]) -> dict[bytes, list[WaitLogEntry]]:
    """Read the log entries whose data counts, of many waits, by key."""
    asked = [(w.address.key, mark.seq) for w in waits for mark in w.marks if mark.event_id]
    found: dict[bytes, list[WaitLogEntry]] = {}
    keys, numbers = [key for key, _ in asked], [seq for _, seq in asked]
    for row in await pool.fetch(Q["read_lines_of_all"], keys, numbers):
        found.setdefault(row["wait_key"], []).append(entry_of(row))
    return found


async def forget_ended(pool: Pool, retention: float, limit: int) -> int:
    """Delete a batch of waits that ended more than `retention` seconds ago."""
    return len(await pool.fetch(Q["forget_ended"], retention, limit))


async def forget_specs(pool: Pool, retention: float) -> None:
    await pool.execute(Q["forget_specs"], retention)


async def count_by_status(pool: Pool) -> dict[str, int]:
    """Count waits by status; estimate from a sample if the table is large."""
    ((size, _),) = await pool.fetch(Q["census_sizes"])
    percent = bounded_scan.sample_percent(size)
    rows = await pool.fetch(Q["census"], percent)
    return {row["status"]: bounded_scan.scaled(row["waits"], percent) for row in rows}
