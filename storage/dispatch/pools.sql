-- name: open_pools
-- Pools that have an actor: all but the archived, and an archived one that just got a job.
-- `offset 0` forces look-ups by key; see storage/postgres/pool.py.
-- Served by: dispatch_pools_pkey, dispatch_jobs_open.
{pool} p
 where status <> 'ARCHIVED'
    or exists (select from dispatch_jobs j
                where j.pool_no = p.pool_no and j.standing in ('open', 'again') offset 0)
 order by pool_no;

-- name: read_pool_no
-- Served by: dispatch_pools_pkey.
{pool} where pool_no = $1;

-- name: find_pool
-- As read_pool, but none that is archived.
{pool} where tenant_id in ($1, 0) and (code = $2 or pool_id = $2) and status <> 'ARCHIVED'
 order by tenant_id desc limit 1;

-- name: count_open_pools
-- How many pools have an actor: those of all tenants, and those of tenant $1 unless the anchor.
select count(*), count(*) filter (where tenant_id = $1 and tenant_id <> 0)
  from dispatch_pools where status <> 'ARCHIVED';

-- name: pool_is_used
-- Whether active subscriptions name the pool or deliveries wait in it.
-- Served by: subscriptions_pool, dispatch_jobs_open.
select exists (select from subscriptions where pool_no = $1 and status = 'ACTIVE')
    or exists (select from dispatch_jobs where pool_no = $1 and standing in ('open', 'again'));
