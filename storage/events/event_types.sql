-- part: select_event_types
select code, event_type_id, name, description, status, source, client_scoped, validation,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_types

-- name: create_event_type
-- A new type; nothing if the code is taken.
insert into event_types
       (tenant_id, code, event_type_id, application, subdomain, aggregate, event,
        name, description, source, client_scoped, validation)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    on conflict do nothing
returning code;

-- name: list_event_types
-- A page of a tenant's types by code, after $2.
-- Served by: event_types_pkey.
{select_event_types}
 where tenant_id = $1
   and code > $2
   and ($3::text is null or application = $3)
   and ($4::text is null or subdomain = $4)
   and ($5::text is null or aggregate = $5)
   and ($6::text is null or status = $6)
   and ($7::text is null or source = $7)
 order by code
 limit $8;

-- name: read_event_type
-- One type by its code or its id.
-- Served by: event_types_pkey, event_types_tenant_id_event_type_id_key.
{select_event_types}
 where tenant_id = $1 and (code = $2 or event_type_id = $2);

-- name: hold_event_type
-- One type by its code or id, locked until the transaction ends.
-- Served by: event_types_pkey, event_types_tenant_id_event_type_id_key.
{select_event_types}
 where tenant_id = $1 and (code = $2 or event_type_id = $2)
   for update;

-- name: list_versions
-- The versions of these types, without their schemas.
-- Served by: event_type_versions_pkey.
select code, major, minor, status, mime_type, schema_type, digest, weight,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_type_versions
 where tenant_id = $1 and code = any($2::text[])
 order by code, major, minor;

-- name: read_schema_text
-- The schema of one version.
-- Served by: event_type_versions_pkey.
select schema_text
  from event_type_versions
 where tenant_id = $1 and code = $2 and major = $3 and minor = $4;

-- name: read_compiled_schema
-- The compiled schema of one version, which payloads are validated against.
-- Served by: event_type_versions_pkey.
select schema_type, coalesce(compiled, convert_to(schema_text, 'UTF8')) as form, digest, weight
  from event_type_versions
 where tenant_id = $1 and code = $2 and major = $3 and minor = $4;

-- name: put_version
-- Add a version, or replace the schema of one that is not final.
-- Served by: event_type_versions_pkey.
insert into event_type_versions
       (tenant_id, code, major, minor, mime_type, schema_type, schema_text,
        compiled, digest, weight)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    on conflict (tenant_id, code, major, minor) do update
   set mime_type = excluded.mime_type, schema_type = excluded.schema_type,
       schema_text = excluded.schema_text, compiled = excluded.compiled,
       digest = excluded.digest, weight = excluded.weight, updated_at = now();

-- name: move_versions
-- Set the statuses of versions.
-- Served by: event_type_versions_pkey.
update event_type_versions v
   set status = n.status, updated_at = now()
  from unnest($3::integer[], $4::integer[], $5::text[]) as n(major, minor, status)
 where v.tenant_id = $1 and v.code = $2 and v.major = n.major and v.minor = n.minor;

-- name: touch_event_type
-- Update the time of the last change.
update event_types set updated_at = now() where tenant_id = $1 and code = $2;

-- name: change_event_type
-- Change the texts or the validation of a type; null keeps the stored value.
-- Served by: event_types_pkey, event_types_tenant_id_event_type_id_key.
update event_types
   set name = coalesce($3, name),
       description = case when $4 then $5 else description end,
       validation = coalesce($6, validation),
       updated_at = now()
 where tenant_id = $1 and (code = $2 or event_type_id = $2)
returning code;

-- name: archive_event_type
-- Archive a type.
update event_types set status = 'ARCHIVED', updated_at = now() where tenant_id = $1 and code = $2;

-- name: drop_event_type
-- Delete a type with its versions.
delete from event_types where tenant_id = $1 and code = $2;

-- name: list_applications
-- Served by: event_types_segments.
select distinct application as segment from event_types where tenant_id = $1
 order by 1 limit $2;

-- name: list_subdomains
-- Of one application, or of all.
-- Served by: event_types_segments.
select distinct subdomain as segment
  from event_types
 where tenant_id = $1 and ($2::text is null or application = $2)
 order by 1 limit $3;

-- name: list_aggregates
-- Of one application and subdomain, or of all.
-- Served by: event_types_segments.
select distinct aggregate as segment
  from event_types
 where tenant_id = $1
   and ($2::text is null or application = $2)
   and ($3::text is null or subdomain = $3)
 order by 1 limit $4;
