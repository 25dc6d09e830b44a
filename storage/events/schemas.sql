-- name: create_schema
-- Store a schema.
insert into schemas
       (tenant_id, schema_id, name, description, mime_type, schema_type, content,
        event_type_id, version)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: replace_schema
-- Replace a schema.
-- Served by: schemas_pkey.
update schemas
   set name = $3, description = $4, mime_type = $5, schema_type = $6, content = $7,
       event_type_id = $8, version = $9, updated_at = now()
 where tenant_id = $1 and schema_id = $2
returning schema_id;

-- name: list_schemas
-- A page of a tenant's schemas, without their contents, in the order they were made, after $2.
-- Served by: schemas_pkey, schemas_of_type.
select schema_id, name, description, mime_type, schema_type, event_type_id,
       case when event_type_id is not null then version end as version,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from schemas
 where tenant_id = $1
   and schema_id > $2
   and ($3::text is null or schema_type = $3)
   and ($4::text is null or event_type_id = $4)
 order by schema_id
 limit $5;

-- name: read_schema
-- One schema.
-- Served by: schemas_pkey.
select schema_id, name, description, mime_type, schema_type, event_type_id,
       case when event_type_id is not null then version end as version, content,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from schemas
 where tenant_id = $1 and schema_id = $2;

-- name: drop_schema
-- Delete a schema; event type versions that use its text stay.
delete from schemas where tenant_id = $1 and schema_id = $2 returning schema_id;
