-- name: count_ordered_jobs
-- Count a subscription's open or failed jobs in groups of pool $3, up to $4.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_failed.
select count(*)
  from (select
          from dispatch_jobs
         where pool_no = $3
           and tenant_id = $1
           and standing in ('open', 'again')
           and message_group is not null
           and mode <> 'IMMEDIATE'
           and subscription_id = $2
         union all
        select
          from dispatch_jobs
         where pool_no = $3
           and tenant_id = $1
           and standing = 'error'
           and message_group is not null
           and mode <> 'IMMEDIATE'
           and subscription_id = $2
         limit $4) as counted;

-- name: move_ordered_jobs
-- Move a subscription's jobs in groups from pool $3 to pool $4, with their positions. A job that is
-- being sent moves as well: later jobs wait for it in the new pool, and its sender still finishes
-- it. The new pool's scan for jobs that no process has in memory finds them.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_failed, dispatch_jobs_pkey.
with ordered as (
    select job_id
      from dispatch_jobs
     where pool_no = $3
       and tenant_id = $1
       and standing in ('open', 'again')
       and message_group is not null
       and mode <> 'IMMEDIATE'
       and subscription_id = $2
     union all
    select job_id
      from dispatch_jobs
     where pool_no = $3
       and tenant_id = $1
       and standing = 'error'
       and message_group is not null
       and mode <> 'IMMEDIATE'
       and subscription_id = $2
)
update dispatch_jobs j
   set pool_no = $4,
       status = case when j.status = 'QUEUED' then 'PENDING' else j.status end,
       standing = case when j.standing = 'open' then 'again' else j.standing end,
       updated_at = now()
  from ordered
 where j.tenant_id = $1 and j.job_id = ordered.job_id and (j.standing <> 'done') is true;

-- name: copy_parked_groups
-- Park the groups in pool $3 that are parked in pool $2 for a subscription with code $4.
-- Served by: dispatch_parked_groups_pkey.
insert into dispatch_parked_groups
       (pool_no, tenant_id, message_group, reason, parked_by, parked_at)
select $3, tenant_id, message_group, reason, parked_by, parked_at
  from dispatch_parked_groups
 where pool_no = $2
   and tenant_id = $1
   and (message_group = $4
        or starts_with(message_group, $4 || ':')
        or tenant_id = 0 and starts_with(message_group, $4 || '@'))
    on conflict do nothing;

-- name: drop_empty_parks
-- Unpark the old groups once they are empty, unless other jobs use the same names.
-- Served by: dispatch_parked_groups_pkey, dispatch_jobs_group.
delete from dispatch_parked_groups p
 where p.pool_no = $2
   and p.tenant_id = $1
   and (p.message_group = $3
        or starts_with(p.message_group, $3 || ':')
        or p.tenant_id = 0 and starts_with(p.message_group, $3 || '@'))
   and not exists (select from dispatch_jobs o
                    where o.pool_no = p.pool_no
                      and o.tenant_id = p.tenant_id
                      and o.message_group = p.message_group
                      and o.standing in ('open', 'again')
                      and o.mode <> 'IMMEDIATE');
