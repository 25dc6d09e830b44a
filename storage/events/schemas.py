"""Schemas that are stored apart from event types."""

from dataclasses import astuple, dataclass

import msgspec

from core.events.event_type import SchemaType
from storage.postgres.pool import Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDraft:
    name: str
    description: str | None
    mime_type: str
    schema_type: SchemaType
    content: str
    event_type_id: str | None
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A stored schema; `content` is only set if the whole schema was read."""

    schema_id: str
    name: str
    description: str | None
    mime_type: str
    schema_type: SchemaType
    event_type_id: str | None
    version: str | None
    created_at: float
    updated_at: float
    content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFilter:
    """A filter of schemas; None matches all."""

    schema_type: SchemaType | None = None
    event_type_id: str | None = None


async def create(pool: Pool, tenant: int, schema_id: str, draft: SchemaDraft) -> None:
    await pool.execute(Q["create_schema"], tenant, schema_id, *astuple(draft))


async def replace(pool: Pool, tenant: int, schema_id: str, draft: SchemaDraft) -> bool:
    values = astuple(draft)
    return await pool.fetchval(Q["replace_schema"], tenant, schema_id, *values) is not None


async def page(
    pool: Pool, tenant: int, chosen: SchemaFilter, after: str, limit: int
) -> list[Schema]:
    """Read the next schemas of a listing, oldest first."""
    rows = await pool.fetch(
        Q["list_schemas"], tenant, after, chosen.schema_type, chosen.event_type_id, limit
    )
    return [msgspec.convert(dict(row), Schema) for row in rows]


async def read(pool: Pool, tenant: int, schema_id: str) -> Schema | None:
    row = await pool.fetchrow(Q["read_schema"], tenant, schema_id)
    return msgspec.convert(dict(row), Schema) if row else None


async def drop(pool: Pool, tenant: int, schema_id: str) -> bool:
    return await pool.fetchval(Q["drop_schema"], tenant, schema_id) is not None
