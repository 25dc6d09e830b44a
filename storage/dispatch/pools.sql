-- `offset 0`: force look-ups by key; see storage/postgres/pool.py.

-- part: pool_columns
pool_no, tenant_id as tenant, pool_id, code, name, description, rate_limit, concurrency, status,
       application, extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at

-- name: open_pools
-- Pools that have an actor: all but the archived, and an archived one that just got a job.
-- Served by: dispatch_pools_pkey, dispatch_jobs_open.
select {pool_columns}
  from dispatch_pools p
 where status <> 'ARCHIVED'
    or exists (select from dispatch_jobs j
                where j.pool_no = p.pool_no and j.standing in ('open', 'again') offset 0)
 order by pool_no;

-- name: read_pool_no
-- Served by: dispatch_pools_pkey.
select {pool_columns} from dispatch_pools where pool_no = $1;

-- name: read_pool
-- A pool by its code or id: the tenant's own, else the anchor's; archived ones only with $3.
-- Served by: dispatch_pools_tenant_id_code_key, dispatch_pools_tenant_id_pool_id_key.
select {pool_columns}
  from dispatch_pools
 where tenant_id in ($1, 0) and (code = $2 or pool_id = $2) and ($3 or status <> 'ARCHIVED')
 order by tenant_id desc
 limit 1;

-- name: list_pools
-- A page of a tenant's pools and the anchor's, in the order of their creation, after $2.
-- Served by: dispatch_pools_pkey.
select {pool_columns}
  from dispatch_pools
 where tenant_id in ($1, 0) and pool_no > $2::bigint and ($3::text is null or status = $3)
   and ($4::boolean is null or (tenant_id = 0) = $4)
 order by pool_no
 limit $5;

-- name: count_pools
-- Served by: dispatch_pools_tenant_id_code_key.
select count(*)
  from dispatch_pools
 where tenant_id in ($1, 0) and ($2::text is null or status = $2)
   and ($3::boolean is null or (tenant_id = 0) = $3);

-- name: hold_pool
-- Lock one of the tenant's own pools by its code or id.
-- Served by: dispatch_pools_tenant_id_code_key, dispatch_pools_tenant_id_pool_id_key.
select {pool_columns}
  from dispatch_pools
 where tenant_id = $1 and (code = $2 or pool_id = $2)
   for update;

-- name: lock_pool_count
-- Wait for others that create a pool, so that two do not take the last place.
select pg_advisory_xact_lock(x'706f6f6c73'::bigint);

-- name: count_open_pools
-- How many pools have an actor, of all tenants, and of tenant $1.
select count(*) as total, count(*) filter (where tenant_id = $1) as own
  from dispatch_pools
 where status <> 'ARCHIVED';

-- name: create_pool
-- Nothing if the code is taken.
insert into dispatch_pools
       (tenant_id, pool_id, code, name, description, rate_limit, concurrency, application)
values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict do nothing
returning {pool_columns};

-- name: save_pool
-- Served by: dispatch_pools_pkey.
update dispatch_pools
   set name = $2, description = $3, rate_limit = $4, concurrency = $5, status = $6,
       updated_at = now()
 where pool_no = $1
returning {pool_columns};

-- name: pool_is_used
-- Whether active subscriptions name the pool or deliveries wait in it.
-- Served by: subscriptions_pool, dispatch_jobs_open.
select exists (select from subscriptions where pool_no = $1 and status = 'ACTIVE')
    or exists (select from dispatch_jobs where pool_no = $1 and standing in ('open', 'again'));
