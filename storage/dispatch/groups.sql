-- name: walk_groups
-- The next $5 groups of a tenant in the pools $4 that have jobs to deliver, after pool $2 and name
-- $3. Steps from group to group, however many jobs each has.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_failed.
with recursive walked as (
    select $2::integer as pool_no, $3::text as message_group, 0 as steps
    union all
    select n.pool_no, n.message_group, w.steps + 1
      from walked w
     cross join lateral (
           select *
             from ((select j.pool_no, j.message_group
                      from dispatch_jobs j
                     where j.pool_no = w.pool_no
                       and j.tenant_id = $1
                       and j.message_group > w.message_group
                       and j.standing in ('open', 'again')
                       and j.mode <> 'IMMEDIATE'
                     order by j.message_group
                     limit 1)
                   union all
                   (select f.pool_no, f.message_group
                      from dispatch_jobs f
                     where f.pool_no = w.pool_no
                       and f.tenant_id = $1
                       and f.message_group > w.message_group
                       and f.standing = 'error'
                       and f.mode <> 'IMMEDIATE'
                     order by f.message_group
                     limit 1)
                   union all
                   (select p.pool_no, least(o.message_group, f.message_group)
                      from unnest($4::integer[]) as p(pool_no)
                      left join lateral (
                           select j.message_group
                             from dispatch_jobs j
                            where j.pool_no = p.pool_no
                              and j.tenant_id = $1
                              and j.message_group is not null
                              and j.standing in ('open', 'again')
                              and j.mode <> 'IMMEDIATE'
                            order by j.message_group
                            limit 1) as o on true
                      left join lateral (
                           select j.message_group
                             from dispatch_jobs j
                            where j.pool_no = p.pool_no
                              and j.tenant_id = $1
                              and j.message_group is not null
                              and j.standing = 'error'
                              and j.mode <> 'IMMEDIATE'
                            order by j.message_group
                            limit 1) as f on true
                     where p.pool_no > w.pool_no
                       and (o.message_group is not null or f.message_group is not null)
                     order by p.pool_no
                     limit 1)) as either
            order by pool_no, message_group
            limit 1) as n
     where w.steps < $5
)
select pool_no, message_group from walked where steps > 0 order by steps;

-- name: failed_groups
-- The next $5 groups of a tenant in the pools $4 with a job that failed, after pool $2 and name $3,
-- among the newest $6 that failed.
-- Served by: dispatch_jobs_error.
select distinct pool_no, message_group
  from (select pool_no, message_group, mode
          from dispatch_jobs
         where tenant_id = $1 and standing = 'error'
         order by job_id desc
         limit $6) as failed
 where message_group is not null
   and mode <> 'IMMEDIATE'
   and pool_no = any($4::integer[])
   and (pool_no, message_group) > ($2, $3::text)
 order by pool_no, message_group
 limit $5;

-- name: list_parked
-- The next $5 parked groups of a tenant in the pools $4, after pool $2 and name $3.
select pool_no, message_group
  from dispatch_parked_groups
 where tenant_id = $1
   and pool_no = any($4::integer[])
   and (pool_no, message_group) > ($2, $3::text)
 order by pool_no, message_group
 limit $5;

-- name: group_fronts
-- Of each of these groups of a tenant ($2 pools, $3 names) the first job that is to be delivered
-- and the first that failed: of those that block on error, and of the others.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_failed, dispatch_jobs_group_blocked.
select a.place, j.standing = 'error' as failed, j.job_id, j.status, j.mode, j.sequence, j.position,
       extract(epoch from j.created_at)::float8 as created_at,
       extract(epoch from j.scheduled_for)::float8 as scheduled_for,
       j.attempt_count, j.last_error
  from unnest($2::integer[], $3::text[]) with ordinality as a(pool_no, message_group, place)
 cross join lateral (
       (select o.*
          from dispatch_jobs o
         where o.pool_no = a.pool_no
           and o.tenant_id = $1
           and o.message_group = a.message_group
           and o.mode <> 'IMMEDIATE'
           and o.standing in ('open', 'again')
         order by o.sequence, o.position
         limit 1)
       union all
       (select f.*
          from dispatch_jobs f
         where f.pool_no = a.pool_no
           and f.tenant_id = $1
           and f.message_group = a.message_group
           and f.mode <> 'IMMEDIATE'
           and f.mode <> 'BLOCK_ON_ERROR'
           and f.standing = 'error'
         order by f.sequence, f.position
         limit 1)
       union all
       (select b.*
          from dispatch_jobs b
         where b.pool_no = a.pool_no
           and b.tenant_id = $1
           and b.message_group = a.message_group
           and b.mode = 'BLOCK_ON_ERROR'
           and b.standing = 'error'
         order by b.sequence, b.position
         limit 1)) as j
 -- What blocks comes last, and so goes before the other that failed.
 order by a.place, j.mode = 'BLOCK_ON_ERROR';

-- name: group_sizes
-- How many jobs each of these groups of a tenant has to deliver, up to $4, and who has parked it.
-- Served by: dispatch_jobs_group, dispatch_parked_groups_pkey.
select a.place, p.code as pool_code, p.pool_id, c.waiting, k.reason, k.parked_by,
       extract(epoch from k.parked_at)::float8 as parked_at
  from unnest($2::integer[], $3::text[]) with ordinality as a(pool_no, message_group, place)
  join dispatch_pools p using (pool_no)
 cross join lateral (
       select count(*) as waiting
         from (select
                 from dispatch_jobs j
                where j.pool_no = a.pool_no
                  and j.tenant_id = $1
                  and j.message_group = a.message_group
                  and j.mode <> 'IMMEDIATE'
                  and j.standing in ('open', 'again')
                limit $4) as counted) as c
  left join dispatch_parked_groups k
         on k.pool_no = a.pool_no and k.tenant_id = $1 and k.message_group = a.message_group
 order by a.place;

-- name: places_of_group
-- Those of the pools $3 in which a tenant's group $2 has jobs or is parked.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_failed, dispatch_parked_groups_pkey.
select p.pool_no
  from dispatch_pools p
 where p.pool_no = any($3::integer[])
   and (exists (select
                  from dispatch_jobs j
                 where j.pool_no = p.pool_no
                   and j.tenant_id = $1
                   and j.message_group = $2
                   and j.standing in ('open', 'again')
                   and j.mode <> 'IMMEDIATE')
        or exists (select
                     from dispatch_jobs f
                    where f.pool_no = p.pool_no
                      and f.tenant_id = $1
                      and f.message_group = $2
                      and f.standing = 'error'
                      and f.mode <> 'IMMEDIATE')
        or exists (select
                     from dispatch_parked_groups k
                    where k.pool_no = p.pool_no and k.tenant_id = $1 and k.message_group = $2))
 order by p.pool_no;

-- name: jobs_behind
-- Ids of the unfinished jobs of a tenant's group $3 in pool $2, in order, after the position $4,
-- $5.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_failed.
select job_id, sequence, position
  from ((select job_id, sequence, position
           from dispatch_jobs
          where pool_no = $2
            and tenant_id = $1
            and message_group = $3
            and standing in ('open', 'again')
            and mode <> 'IMMEDIATE'
            and (sequence, position) > ($4::integer, $5::bigint)
          order by sequence, position
          limit $6)
        union all
        (select job_id, sequence, position
           from dispatch_jobs
          where pool_no = $2
            and tenant_id = $1
            and message_group = $3
            and standing = 'error'
            and mode <> 'IMMEDIATE'
            and (sequence, position) > ($4::integer, $5::bigint)
          order by sequence, position
          limit $6)) as behind
 order by sequence, position
 limit $6;

-- name: park_group
-- Park a group or change the reason. Returns nothing if $6 others are parked already.
-- Served by: dispatch_parked_groups_pkey.
insert into dispatch_parked_groups (pool_no, tenant_id, message_group, reason, parked_by)
select $1::integer, $2::integer, $3::text, $4::text, $5::text
 where (select count(*)
          from dispatch_parked_groups k
         where k.pool_no = $1 and k.tenant_id = $2 and k.message_group <> $3) < $6
    on conflict (pool_no, tenant_id, message_group) do update
   set reason = excluded.reason, parked_by = excluded.parked_by, parked_at = now()
returning message_group;

-- name: unpark_group
-- Unpark a group.
delete from dispatch_parked_groups
 where pool_no = $1 and tenant_id = $2 and message_group = $3
returning message_group;
