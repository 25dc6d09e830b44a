"""Resources, and open gathers."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import asyncpg
import msgspec

from core.gathers.gather import MAX_TIMEOUT_MS, GatherSpec, Resource, decode_gather_spec
from core.shared.address import Address
from core.waits.spec import decode_spec
from core.waits.state import GATHER_ENTRY, EventState
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.encryption.secret_values import (
    decrypt_gather_spec,
    decrypt_resource,
    encrypt_resource,
    resource_at,
)
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from storage.waits import waits
from storage.waits.wait_rows import address_of

_resource = msgspec.json.Decoder(Resource)
_marks = msgspec.json.Decoder(tuple[EventState, ...])


@dataclass(frozen=True, slots=True)
class RegisteredResource:
    name: str
    resource: Resource
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class OpenGather:
    """An open gather, and the state of each of its calls."""

    address: Address
    marks: dict[str, EventState]
    expires_at: float


async def put(pool: Pool, tenant: int, name: str, resource: Resource) -> bool:
    """Create or replace a resource; return True if it is new."""
    stored = encrypt_resource(resource, resource_at(tenant, name))
    text = msgspec.json.encode(stored).decode()
    created: bool = await pool.fetchval(Q["put_resource"], tenant, name, text)
    return created


async def find(pool: Pool, tenant: int, names: Sequence[str]) -> dict[str, Resource]:
    """Read the resources with these names, decrypted."""
    rows = await pool.fetch(Q["find_resources"], tenant, list(names))
    found = {row["name"]: _resource.decode(row["definition"]) for row in rows}
    return {name: decrypt_resource(one, resource_at(tenant, name)) for name, one in found.items()}


async def page(pool: Pool, tenant: int, after: str, limit: int) -> list[RegisteredResource]:
    """Read the next resources of a listing, by name."""
    return [
        _registered(tenant, row)
        for row in await pool.fetch(Q["list_resources"], tenant, after, limit)
    ]


async def read(pool: Pool, tenant: int, name: str) -> RegisteredResource | None:
    row = await pool.fetchrow(Q["read_resource"], tenant, name)
    return _registered(tenant, row) if row else None


async def drop(pool: Pool, tenant: int, name: str) -> bool:
    return await pool.fetchval(Q["drop_resource"], tenant, name) is not None


async def open_gathers(pool: Pool, older_than: float, limit: int) -> list[OpenGather]:
    """Read the gathers that have been open for so many seconds, soonest deadline first."""
    rows = await pool.fetch(Q["open_gathers"], older_than, limit, MAX_TIMEOUT_MS / 1000)
    return [
        OpenGather(
            address_of(row),
            dict(zip(decode_spec(row["spec"]).names, _marks.decode(row["marks"]), strict=True)),
            row["expires_at"],
        )
        for row in rows
    ]


async def read_gather_spec(pool: Pool, address: Address) -> GatherSpec | None:
    lines = await waits.read_lines(pool, address.key, [1])
    found = next(
        (decode_gather_spec(line.payload) for line in lines if line.kind == GATHER_ENTRY), None
    )
    return None if found is None else decrypt_gather_spec(found, address)


def _registered(tenant: int, row: asyncpg.Record) -> RegisteredResource:
    definition = _resource.decode(row["definition"])
    # Show a resource even if its secrets are unreadable: it can be replaced or deleted.
    with suppress(*ENCRYPTION_ERRORS):
        definition = decrypt_resource(definition, resource_at(tenant, row["name"]))
    return RegisteredResource(row["name"], definition, row["created_at"], row["updated_at"])
