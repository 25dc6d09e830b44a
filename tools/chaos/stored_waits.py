"""Reading many correlations at once with all that hangs on them: for accounts, not requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.shared.address import Address
from core.waits.state import ParkedEvent, Wait, WaitLogEntry
from storage.postgres.pool import Pool
from storage.postgres.queries import load
from storage.waits.wait_rows import entry_of, parked_of, wait_of

_Q = load("tools.chaos")

BATCH_SIZE = 2_000


@dataclass(slots=True)
class CorrelationSnapshot:
    """All that Postgres has of one address."""

    wait: Wait | None = None
    resumed: bool = False
    entries: list[WaitLogEntry] = field(default_factory=list)
    parked: list[ParkedEvent] = field(default_factory=list)


async def read_snapshots(
    pool: Pool, addresses: Sequence[Address]
) -> dict[Address, CorrelationSnapshot]:
    """Read the rows of each of these addresses, whether there are any or not."""
    found = {address: CorrelationSnapshot() for address in addresses}
    for start in range(0, len(addresses), BATCH_SIZE):
        some = {address.key: found[address] for address in addresses[start : start + BATCH_SIZE]}
        keys = list(some)
        for row in await pool.fetch(_Q["audit_waits"], keys):
            record = some[row["wait_key"]]
            record.wait, record.resumed = wait_of(row), row["resumed"]
        for row in await pool.fetch(_Q["audit_lines"], keys):
            some[row["wait_key"]].entries.append(entry_of(row))
        for row in await pool.fetch(_Q["audit_parked"], keys):
            some[row["wait_key"]].parked.append(parked_of(row))
    return found


async def still_waiting(pool: Pool, addresses: Sequence[Address]) -> list[Address]:
    """Those of these addresses whose wait has not ended."""
    by_key = {address.key: address for address in addresses}
    keys = list(by_key)
    waiting: list[Address] = []
    for start in range(0, len(keys), BATCH_SIZE):
        rows = await pool.fetch(_Q["audit_waiting"], keys[start : start + BATCH_SIZE])
        waiting += [by_key[row["wait_key"]] for row in rows]
    return waiting
