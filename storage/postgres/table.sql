-- The queries that every noun has: templates, which storage/postgres/table.py fills in.

-- name: read_{noun}
-- A row by its code or id: the tenant's own, else the anchor's.
-- Served by: the keys (tenant_id, {code}) and (tenant_id, {noun}_id).
{select} where {seen} and ({code} = :name or {noun}_id = :name)
 order by tenant_id desc limit 1;

-- name: lock_{noun}
-- One of the tenant's own rows by its code or id.
-- Served by: the keys (tenant_id, {code}) and (tenant_id, {noun}_id).
{select} where tenant_id = :tenant and ({code} = :name or {noun}_id = :name) for update;

-- name: list_{noun}s
-- A page of the tenant's rows and the anchor's.
-- Served by: the primary key.
{select} where {seen} {filters} and {key} > :after::bigint
 order by {key} limit :limit;

-- name: count_{noun}s
-- Served by: the key (tenant_id, {code}).
select count(*) from {table} where {seen} {filters};

-- name: create_{noun}
-- Nothing if the code or the id exists.
insert into {table} (tenant_id, {new}) values (:tenant, {new_values})
    on conflict do nothing
returning {columns};

-- name: save_{noun}
-- Served by: the primary key.
update {table} set {saved}, updated_at = now() where {key} = :{key} returning {columns};
