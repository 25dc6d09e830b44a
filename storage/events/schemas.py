"""Schemas that are stored apart from event types."""

from dataclasses import dataclass

import asyncpg

from core.events.event_type import SchemaType
from storage.postgres.pool import Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDraft:
    """A schema to store."""

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
    await pool.execute(Q["create_schema"], tenant, schema_id, *_values(draft))


async def replace(pool: Pool, tenant: int, schema_id: str, draft: SchemaDraft) -> bool:
    """Replace a schema; return False if there is none."""
    values = _values(draft)
    return await pool.fetchval(Q["replace_schema"], tenant, schema_id, *values) is not None


async def page(
    pool: Pool, tenant: int, chosen: SchemaFilter, after: str, limit: int
) -> list[Schema]:
    """Read the next schemas of a listing, oldest first."""
    rows = await pool.fetch(
        Q["list_schemas"], tenant, after, chosen.schema_type, chosen.event_type_id, limit
    )
    return [_schema(row, None) for row in rows]


async def read(pool: Pool, tenant: int, schema_id: str) -> Schema | None:
    """Read one schema with its content."""
    row = await pool.fetchrow(Q["read_schema"], tenant, schema_id)
    return _schema(row, row["content"]) if row else None


async def drop(pool: Pool, tenant: int, schema_id: str) -> bool:
    """Delete a schema; return False if there is none."""
    return await pool.fetchval(Q["drop_schema"], tenant, schema_id) is not None


def _values(draft: SchemaDraft) -> tuple[str | None, ...]:
    return (
        draft.name,
        draft.description,
        draft.mime_type,
        draft.schema_type,
        draft.content,
        draft.event_type_id,
        draft.version,
    )


def _schema(row: asyncpg.Record, content: str | None) -> Schema:
    linked = row["event_type_id"]
    return Schema(
        schema_id=row["schema_id"],
        name=row["name"],
        description=row["description"],
        mime_type=row["mime_type"],
        schema_type=SchemaType(row["schema_type"]),
        event_type_id=linked,
        version=row["version"] if linked else None,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        content=content,
    )
