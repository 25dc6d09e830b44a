"""Reading many correlations at once with all that hangs on them: for accounts, not requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.shared.address import Address
from core.waits.state import Entry, Parked, Wait
from storage.postgres.pool import Pool
from storage.postgres.queries import load
from storage.waits.wait_rows import entry_of, parked_of, wait_of

_Q = load("tools.chaos")

AT_ONCE = 2_000


@dataclass(slots=True)
class Record:
    """All that Postgres has of one address."""

    wait: Wait | None = None
    resumed: bool = False
    entries: list[Entry] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)


async def read_records(pool: Pool, addresses: Sequence[Address]) -> dict[Address, Record]:
    """What there is of each of these addresses, known or not."""
    found = {address: Record() for address in addresses}
    for start in range(0, len(addresses), AT_ONCE):
        some = {address.key: found[address] for address in addresses[start : start + AT_ONCE]}
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
    for start in range(0, len(keys), AT_ONCE):
        rows = await pool.fetch(_Q["audit_waiting"], keys[start : start + AT_ONCE])
        waiting += [by_key[row["wait_key"]] for row in rows]
    return waiting
