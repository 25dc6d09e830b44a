-- name: backlogs
-- Count the waiting jobs of each tenant in each pool, among the first $1 of the pool.
-- Served by: dispatch_jobs_open.
select p.pool_no, p.code, c.tenant_id, c.jobs
  from dispatch_pools p
 cross join lateral (
       select f.tenant_id, count(*) as jobs
         from (select j.tenant_id
                 from dispatch_jobs j
                where j.pool_no = p.pool_no and j.standing in ('open', 'again')
                order by j.position
                limit $1) as f
        group by f.tenant_id) as c
 where p.status <> 'ARCHIVED';

-- name: blocked_groups
-- Count the groups of each tenant in each pool that a failed job blocks: at most $1 such jobs,
-- among $2 failed ones.
-- Served by: dispatch_jobs_error.
select f.tenant_id, p.code, count(distinct f.message_group) as groups,
       min(f.message_group) as example
  from (select e.tenant_id, e.pool_no, e.message_group
          from (select tenant_id, pool_no, message_group, mode
                  from dispatch_jobs
                 where standing = 'error'
                 limit $2) as e
         where e.mode = 'BLOCK_ON_ERROR' and e.message_group is not null
         limit $1) as f
  join dispatch_pools p using (pool_no)
 group by f.tenant_id, p.code;

-- name: queue_sizes
-- Count a tenant's jobs in each of the pools $2 that are being delivered, are due, or are
-- scheduled: at most $3 of a pool, among the first $4 of all its tenants.
-- Served by: dispatch_jobs_open.
select p.pool_no, c.under_way, c.delayed, c.jobs - c.under_way - c.delayed as ready
  from unnest($2::integer[]) as p(pool_no)
 cross join lateral (
       select count(*) as jobs,
              count(*) filter (where f.status = 'IN_PROGRESS') as under_way,
              count(*) filter (where f.status <> 'IN_PROGRESS'
                                 and f.scheduled_for > now()) as delayed
         from (select j.status, j.scheduled_for
                 from (select o.tenant_id, o.status, o.scheduled_for
                         from dispatch_jobs o
                        where o.pool_no = p.pool_no and o.standing in ('open', 'again')
                        order by o.position
                        limit $4) as j
                where j.tenant_id = $1
                limit $3) as f) as c;

-- name: recent_outcomes
-- How the last $4 jobs of a tenant with ids since $2 ended, by pool; and among them those since $3.
-- Served by: dispatch_jobs_pkey.
select pool_no,
       count(*) filter (where status = 'COMPLETED') as completed,
       count(*) filter (where status = 'ERROR') as failed,
       count(*) filter (where status = 'COMPLETED' and job_id >= $3) as lately_completed,
       count(*) filter (where status = 'ERROR' and job_id >= $3) as lately_failed
  from (select pool_no, status, job_id
          from dispatch_jobs
         where tenant_id = $1 and job_id >= $2
         order by job_id desc
         limit $4) as recent
 group by pool_no;
