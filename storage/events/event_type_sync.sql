-- name: list_schema_prints
-- A hash of the language, MIME type and text of each version of these types.
-- Served by: event_type_versions_pkey.
select code, major, minor,
       sha256(convert_to(schema_type || ' ' || mime_type || ' ' || schema_text, 'UTF8')) as print
  from event_type_versions
 where tenant_id = $1 and code = any($2::text[]);

-- name: hold_undeclared_types
-- Lock the types that an application declared earlier and that are not among $3.
-- Served by: event_types_segments.
select code, event_type_id, name, description, status, source, client_scoped, validation,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_types
 where tenant_id = $1
   and application = $2
   and source = 'CODE'
   and status = 'CURRENT'
   and code <> all($3::text[])
 order by code
 limit $4
   for update;
