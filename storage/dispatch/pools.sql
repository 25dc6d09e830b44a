-- `offset 0`: how writers keep to keys; see storage/postgres/pool.py.

-- name: open_pools
-- Every pool that has an actor: also one that was archived in the moment somebody gave it a job.
-- Served by: dispatch_pools_pkey, dispatch_jobs_open.
select pool_no, tenant_id, pool_id, code, name, description, rate_limit, concurrency, status,
       application,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from dispatch_pools p
 where status <> 'ARCHIVED'
    or exists (select from dispatch_jobs j
                where j.pool_no = p.pool_no and j.standing in ('open', 'again')
               offset 0)
 order by pool_no;

-- name: read_pool_no
-- One pool by its number.
-- Served by: dispatch_pools_pkey.
select pool_no, tenant_id, pool_id, code, name, description, rate_limit, concurrency, status,
       application,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from dispatch_pools
 where pool_no = $1;

-- name: read_pool
-- One pool by its code or its id: the tenant's own, else the anchor's.
-- Served by: dispatch_pools_tenant_id_code_key, dispatch_pools_tenant_id_pool_id_key.
select pool_no, tenant_id, pool_id, code, name, description, rate_limit, concurrency, status,
       application,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from dispatch_pools
 where tenant_id in ($1, 0) and (code = $2 or pool_id = $2)
 order by tenant_id desc
 limit 1;

-- name: find_pool
-- The same, but for pools that are archived: where deliveries may go.
-- Served by: dispatch_pools_tenant_id_code_key, dispatch_pools_tenant_id_pool_id_key.
select pool_no, tenant_id, pool_id, code, name, description, rate_limit, concurrency, status,
       application,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from dispatch_pools
 where tenant_id in ($1, 0) and (code = $2 or pool_id = $2) and status <> 'ARCHIVED'
 order by tenant_id desc
 limit 1;

-- name: list_pools
-- A page of a tenant's pools and the anchor's, in the order they were made, after $2.
-- Served by: dispatch_pools_pkey.
select pool_no, tenant_id, pool_id, code, name, description, rate_limit, concurrency, status,
       application,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from dispatch_pools
 where tenant_id in ($1, 0)
   and pool_no > $2::bigint
   and ($3::text is null or status = $3)
   and ($4::boolean is null or (tenant_id = 0) = $4)
 order by pool_no
 limit $5;

-- name: count_pools
-- How many such a listing has in all.
-- Served by: dispatch_pools_tenant_id_code_key.
select count(*)
  from dispatch_pools
 where tenant_id in ($1, 0)
   and ($2::text is null or status = $2)
   and ($3::boolean is null or (tenant_id = 0) = $3);

-- name: hold_pool
-- A pool of one's own by its code or its id; nobody else changes or begins to use it until the
-- transaction ends.
-- Served by: dispatch_pools_tenant_id_code_key, dispatch_pools_tenant_id_pool_id_key.
select pool_no, tenant_id, pool_id, code, name, description, rate_limit, concurrency, status,
       application,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from dispatch_pools
 where tenant_id = $1 and (code = $2 or pool_id = $2)
   for update;

-- name: hold_open_pool
-- A pool that is not archived, and is not until the transaction ends. Nothing: it is.
-- Served by: dispatch_pools_pkey.
select code, pool_id
  from dispatch_pools
 where pool_no = $1 and status <> 'ARCHIVED'
   for key share;

-- name: lock_pool_count
-- Whoever wants one more pool waits here, so that two do not take the last place.
select pg_advisory_xact_lock(x'706f6f6c73'::bigint);

-- name: count_open_pools
-- How many pools have an actor, of all tenants, and of tenant $1.
select count(*) as total, count(*) filter (where tenant_id = $1) as own
  from dispatch_pools
 where status <> 'ARCHIVED';

-- name: create_pool
-- A new pool; nothing if the code is taken.
insert into dispatch_pools
       (tenant_id, pool_id, code, name, description, rate_limit, concurrency, application)
values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict do nothing
returning pool_no;

-- name: save_pool
-- Other values for a pool.
-- Served by: dispatch_pools_pkey.
update dispatch_pools
   set name = $2, description = $3, rate_limit = $4, concurrency = $5, status = $6,
       updated_at = now()
 where pool_no = $1;

-- name: pool_is_used
-- Whether subscriptions that take events name it, and whether deliveries wait in it.
-- Served by: subscriptions_pool, dispatch_jobs_open.
select exists (select from subscriptions where pool_no = $1 and status = 'ACTIVE') as subscribed,
       exists (select from dispatch_jobs
                where pool_no = $1 and standing in ('open', 'again')) as busy;

-- name: application_pools
-- What an application declared.
-- Served by: dispatch_pools_tenant_id_code_key.
select code from dispatch_pools
 where tenant_id = $1 and application = $2 and status <> 'ARCHIVED'
 order by code;
