-- name: list_collection_summaries
-- A page of a tenant's collections, by name, without their definitions, which may be long.
-- Served by: collections_tenant_id_name_key.
select collection_id, name, description, field_count, version, status,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from collections
 where tenant_id = $1 and name > $2 and ($3::text is null or status = $3)
 order by name
 limit $4;

-- name: read_collection_no
-- Served by: collections_pkey.
{collection} where tenant_id = $1 and collection_no = $2;

-- name: read_active_collections
-- Served by: collections_tenant_id_name_key.
{collection} where tenant_id = $1 and name = any($2::text[]) and status = 'ACTIVE';

-- name: bytes_of_definitions
-- How long the definitions of a tenant are together, without that of $2.
-- Served by: collections_tenant_id_name_key.
select coalesce(sum(definition_bytes), 0) from collections where tenant_id = $1 and name <> $2;

-- name: collections_that_refer
-- The other active collections of a tenant with fields that lead to collection $2 or sum it up.
-- Served by: collections_tenant_id_name_key.
{collection}
 where tenant_id = $1 and status = 'ACTIVE' and name <> $2 and $2 = any(refers_to);

-- name: collection_is_used
-- Whether fields of other active collections lead to collection $2 or sum it up.
-- Served by: collections_tenant_id_name_key.
select exists (select from collections
                where tenant_id = $1 and status = 'ACTIVE' and name <> $2
                  and $2 = any(refers_to));

-- name: lock_collections
-- Until the transaction ends, no other one changes collections of this tenant.
-- Served by: tenants_pkey.
select from tenants where tenant_id = $1 for no key update;

-- name: keep_collection_version
-- Served by: collection_versions_pkey.
insert into collection_versions (collection_no, version, tenant_id, definition, note, created_by)
values ($1, $2, $3, $4, $5, $6);

-- name: forget_collection_versions
-- Delete the versions up to $2.
-- Served by: collection_versions_pkey.
delete from collection_versions where collection_no = $1 and version <= $2;

-- name: list_collection_versions
-- Versions before $3, the newest first.
-- Served by: collection_versions_pkey.
select version, note, created_by, extract(epoch from created_at)::float8 as created_at
  from collection_versions
 where collection_no = $1 and tenant_id = $2 and version < $3
 order by version desc
 limit $4;

-- name: read_collection_version
-- Served by: collection_versions_pkey.
select version, note, created_by, extract(epoch from created_at)::float8 as created_at, definition
  from collection_versions
 where collection_no = $1 and tenant_id = $2 and version = $3;

-- name: schedule_reindexing
-- Fill the columns of records anew as soon as nobody uses the definition before ($2 seconds). By the
-- clock: the transaction may have begun long ago.
-- Served by: collections_pkey.
update collections
   set reindex_at = clock_timestamp() + make_interval(secs => $2)
 where collection_no = $1;

-- name: collections_to_reindex
-- Served by: collections_reindex.
{collection} where reindex_at <= now() order by reindex_at limit $1;

-- name: collection_has_version
-- Served by: collections_pkey.
select exists (select from collections where collection_no = $1 and version = $2);

-- name: finish_reindexing
-- Not if the definition has changed meanwhile.
-- Served by: collections_pkey.
update collections set reindex_at = null, unfilled = '{}' where collection_no = $1 and version = $2;
