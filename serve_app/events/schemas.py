"""Schemas that are stored by themselves, to be shared by versions of event types."""

from typing import Annotated

from fastapi import Path, Query

from core.shared.quotas import Quota
from serve_app.events.event_type_models import (
    SchemaQuery,
    SchemaRequest,
    SchemaView,
    SchemaWithContent,
)
from serve_app.events.schema_service import schema_draft_of
from serve_app.http.fields import SCHEMA_ID
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter, unless_missing
from storage.events import schemas

SchemaId = Annotated[str, Path(alias="schemaId", pattern=SCHEMA_ID)]

router = HttpRouter("/api/schemas", tag="schemas", access="event_types")


@router.post(refuses=(409,), status=201)
async def create_schema(body: SchemaRequest, context: Context) -> SchemaWithContent:
    """Store a schema; one that cannot be compiled is refused."""
    draft = await schema_draft_of(context, body)
    await context.replica.count_quotas.check(context.tenant, Quota.SCHEMAS)
    schema_id = context.new_id("sch")
    await context.write(schemas.create, schema_id, draft)
    return await show_schema(schema_id, context)


@router.get()
async def list_schemas(
    query: Annotated[SchemaQuery, Query()], context: Context
) -> Page[SchemaView]:
    """List the tenant's schemas in the order they were made, without their contents."""
    rows = await context.list(schemas.page, query.to_filter(), query.cursor, query.limit)
    return Page[SchemaView].of_rows(rows, query.limit, lambda row: row.schema_id)


@router.get("/{schemaId}", refuses=(404,))
async def show_schema(schema_id: SchemaId, context: Context) -> SchemaWithContent:
    """Show one schema with its content."""
    row = await context.read(schemas.read, schema_id)
    return SchemaWithContent.of(unless_missing(row, f"schema {schema_id}"))


@router.put("/{schemaId}", refuses=(404,))
async def replace_schema(
    schema_id: SchemaId, body: SchemaRequest, context: Context
) -> SchemaWithContent:
    """Change a schema. Versions that were made of it stay as they are."""
    draft = await schema_draft_of(context, body)
    await context.read(schemas.replace, schema_id, draft)
    return await show_schema(schema_id, context)


@router.delete("/{schemaId}", refuses=(404,))
async def drop_schema(schema_id: SchemaId, context: Context) -> None:
    """Remove a schema. Versions that were made of it stay."""
    unless_missing(await context.write(schemas.drop, schema_id), f"schema {schema_id}")
