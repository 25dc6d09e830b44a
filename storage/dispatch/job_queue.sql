-- `any(array[…])`, `offset 0`: force look-ups by key; see storage/postgres/pool.py.

-- name: claim_jobs
-- Claim jobs ($1 tenants, $2 job ids) of pool $3 for the process $4, for their time-out and $5
-- seconds more. Leaves out jobs that are claimed, not due, expired or another pool's, and those
-- that are not next in their group: a job that blocks on error waits for every job before it, any
-- other only for jobs that are being sent or were never sent. An event's job uses the current
-- target of its subscription, because the credentials are for that. `(…) is true` keeps the planner
-- from the index of all open jobs, which it would read whole.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_group, dispatch_jobs_group_blocked, events_pkey,
-- subscriptions_pkey.
with won as (
    update dispatch_jobs j
       set status = 'IN_PROGRESS',
           standing = 'open',
           sends = j.sends + 1,
           owner = $4,
           target_url = coalesce((select s.target
                                    from subscriptions s
                                   where s.tenant_id = j.tenant_id
                                     and s.subscription_id = j.subscription_id), j.target_url),
           lease_until = now() + (j.timeout_seconds + $5) * interval '1 second',
           updated_at = now()
      from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
     where j.tenant_id = any(array[asked.tenant_id])
       and j.job_id = asked.job_id
       and (j.pool_no = $3) is true
       and (j.standing in ('open', 'again')) is true
       and (j.status <> 'IN_PROGRESS' or j.lease_until < now())
       -- Clocks differ by some milliseconds, and a job that is refused is looked up again at once.
       and (j.scheduled_for is null or j.scheduled_for < now() + interval '250 milliseconds')
       and (j.mode = 'IMMEDIATE' or j.message_group is null or not (
            exists (select from dispatch_jobs e
                     where e.pool_no = j.pool_no
                       and e.tenant_id = j.tenant_id
                       and e.message_group = j.message_group
                       and e.standing in ('open', 'again')
                       and e.mode <> 'IMMEDIATE'
                       and (e.sequence, e.position) < (j.sequence, j.position)
                       and (j.mode = 'BLOCK_ON_ERROR' or e.status = 'IN_PROGRESS' or e.sends = 0))
            or j.mode = 'BLOCK_ON_ERROR'
               and exists (select from dispatch_jobs b
                            where b.pool_no = j.pool_no
                              and b.tenant_id = j.tenant_id
                              and b.message_group = j.message_group
                              and b.standing = 'error'
                              and b.mode = 'BLOCK_ON_ERROR'
                              and (b.sequence, b.position) < (j.sequence, j.position))))
    returning j.tenant_id, j.job_id, j.sends, j.attempt_count, j.max_retries, j.timeout_seconds,
              j.kind, j.code, j.source, j.subject, j.event_tenant, j.event_id, j.correlation_id,
              j.target_url, j.data_only, j.created_at, j.expires_at, j.payload, j.content_type,
              j.headers, j.auth, j.signature, j.client_id, j.subscription_id, j.idempotency_key
)
select w.tenant_id, w.job_id, w.sends, w.attempt_count, w.max_retries, w.timeout_seconds, w.kind,
       w.code, w.source, w.subject, w.event_id, w.correlation_id, w.target_url, w.data_only,
       extract(epoch from w.created_at)::float8 as created_at,
       coalesce(extract(epoch from w.expires_at), 0)::float8 as expires_at,
       coalesce(w.payload, e.data) as payload,
       coalesce(w.content_type, e.content_type) as content_type,
       w.headers, w.auth, w.signature, w.client_id, w.idempotency_key, w.subscription_id,
       case when w.tenant_id = 0
            then (select t.slug from tenants t where t.tenant_id = w.event_tenant)
             end as event_tenant,
       s.version as subscription_version,
       e.type as event_type, e.source as event_source, e.subject as event_subject,
       extract(epoch from e.time)::float8 as event_time, e.message_group as event_group,
       e.causation_id, e.spec_version, e.type_version, e.data_schema, e.extensions
  from won w
  left join events e on e.tenant_id = any(array[w.event_tenant]) and e.event_id = w.event_id
  left join subscriptions s
         on s.tenant_id = any(array[w.tenant_id]) and s.subscription_id = w.subscription_id;

-- name: finish_jobs
-- Store the results of claimed jobs. For a job that another process has claimed since, only the
-- attempt is stored. A failed job of a deleted subscription blocks no group, as nobody could
-- resolve it. Returns the jobs that were updated, and when each is sent again.
-- Served by: dispatch_jobs_pkey, subscriptions_pkey.
with said as (
    select s.*, s.standing = 'error' and exists (
                select from dispatch_jobs j
                 where j.tenant_id = s.tenant_id
                   and j.job_id = s.job_id
                   and j.subscription_id is not null
                   and not exists (select from subscriptions w
                                    where w.tenant_id = j.tenant_id
                                      and w.subscription_id = j.subscription_id
                                   offset 0)
                offset 0) as orphaned
      from unnest($1::sent_job[]) as s
), logged as (
    insert into dispatch_attempts
           (tenant_id, job_id, send_no, attempt_number, attempted_at, duration_ms, status,
            response_code, response_body, error_type, error_message)
    select tenant_id, job_id, send_no, attempt_number, to_timestamp(attempted_at), duration_ms,
           outcome, response_code, response_body, error_type, error_message
      from said
     where outcome is not null
        on conflict do nothing
)
update dispatch_jobs j
   set status = said.status,
       standing = case when said.orphaned then 'done' else said.standing end,
       ignored_at = case when said.orphaned then now() end,
       attempt_count = said.attempt_count,
       scheduled_for = now() + said.wait * interval '1 second',
       lease_until = null,
       owner = null,
       last_attempt_at = coalesce(to_timestamp(said.attempted_at), j.last_attempt_at),
       completed_at = case when said.standing = 'done' or said.orphaned then now() end,
       last_error = said.last_error,
       updated_at = now()
  from said
 where j.tenant_id = any(array[said.tenant_id])
   and j.job_id = said.job_id
   and j.sends = said.send_no
   and j.status = 'IN_PROGRESS'
returning j.tenant_id, j.job_id, coalesce(extract(epoch from j.scheduled_for), 0)::float8 as due;

-- name: forget_deferrals
-- Delete the deferrals up to each $3 of jobs ($1 tenants, $2 ids) that are deferred often.
-- Served by: dispatch_attempts_pkey.
delete from dispatch_attempts a
 using unnest($1::integer[], $2::text[], $3::integer[]) as asked(tenant_id, job_id, send_no)
 where a.tenant_id = any(array[asked.tenant_id])
   and a.job_id = asked.job_id
   and a.send_no <= asked.send_no
   and a.status = 'DEFERRED';

-- name: scan_jobs
-- The open jobs of pool $1 in stored order, after $2.
-- Served by: dispatch_jobs_open, subscriptions_pkey, events_pkey.
select j.tenant_id, j.job_id, j.position, coalesce(s.target, j.target_url) as target_url, j.mode,
       j.message_group, j.sequence,
       coalesce(extract(epoch from case when j.status = 'IN_PROGRESS' then j.lease_until
                                        else j.scheduled_for end), 0)::float8 as due,
       j.status <> 'IN_PROGRESS' and j.sends > 0 as retrying, false as stuck,
       coalesce(octet_length(j.payload),
                (select octet_length(e.data) from events e
                  where e.tenant_id = j.event_tenant and e.event_id = j.event_id), 0) as size
  from dispatch_jobs j
  left join subscriptions s
         on s.tenant_id = any(array[j.tenant_id]) and s.subscription_id = j.subscription_id
 where j.pool_no = $1 and j.position > $2 and j.standing in ('open', 'again')
 order by j.position
 limit $3;

-- name: jobs_again
-- The jobs of pool $1 that no process has in memory.
-- Served by: dispatch_jobs_again, subscriptions_pkey, events_pkey.
select j.tenant_id, j.job_id, j.position, coalesce(s.target, j.target_url) as target_url, j.mode,
       j.message_group, j.sequence,
       coalesce(extract(epoch from j.scheduled_for), 0)::float8 as due, false as retrying,
       false as stuck,
       coalesce(octet_length(j.payload),
                (select octet_length(e.data) from events e
                  where e.tenant_id = j.event_tenant and e.event_id = j.event_id), 0) as size
  from dispatch_jobs j
  left join subscriptions s
         on s.tenant_id = any(array[j.tenant_id]) and s.subscription_id = j.subscription_id
 where j.pool_no = $1 and j.position > $2 and j.standing = 'again'
 order by j.position
 limit $3;

-- name: find_jobs
-- Those of these jobs of pool $1 that are still open.
-- Served by: dispatch_jobs_pkey, subscriptions_pkey, events_pkey.
select j.tenant_id, j.job_id, j.position, coalesce(s.target, j.target_url) as target_url, j.mode,
       j.message_group, j.sequence,
       coalesce(extract(epoch from case when j.status = 'IN_PROGRESS' then j.lease_until
                                        else j.scheduled_for end), 0)::float8 as due,
       j.status <> 'IN_PROGRESS' and j.sends > 0 as retrying, false as stuck,
       coalesce(octet_length(j.payload),
                (select octet_length(e.data) from events e
                  where e.tenant_id = j.event_tenant and e.event_id = j.event_id), 0) as size
  from unnest($2::integer[], $3::text[]) as asked(tenant_id, job_id)
  join dispatch_jobs j on j.tenant_id = any(array[asked.tenant_id]) and j.job_id = asked.job_id
  left join subscriptions s
         on s.tenant_id = any(array[j.tenant_id]) and s.subscription_id = j.subscription_id
 where (j.pool_no = $1) is true and (j.standing in ('open', 'again')) is true;

-- name: read_groups
-- The first $4 jobs of each of these groups of pool $1, in order, with what blocks them. A job that
-- does not block on error blocks no other once it has failed for good.
-- Served by: dispatch_jobs_group, dispatch_jobs_group_blocked, subscriptions_pkey, events_pkey.
select j.tenant_id, j.job_id, j.position, coalesce(s.target, j.target_url) as target_url, j.mode,
       j.message_group, j.sequence, j.due, j.retrying, j.stuck,
       coalesce(octet_length(j.payload),
                (select octet_length(e.data) from events e
                  where e.tenant_id = j.event_tenant and e.event_id = j.event_id), 0) as size
  from unnest($2::integer[], $3::text[]) as asked(tenant_id, message_group)
 cross join lateral (
       select e.tenant_id, e.job_id, e.position, e.subscription_id, e.target_url, e.mode,
              e.message_group, e.sequence, e.payload, e.event_tenant, e.event_id,
              coalesce(extract(epoch from case when e.status = 'IN_PROGRESS' then e.lease_until
                                               else e.scheduled_for end), 0)::float8 as due,
              e.status <> 'IN_PROGRESS' and e.sends > 0 as retrying,
              e.standing = 'error' as stuck
         from ((select *
                  from dispatch_jobs o
                 where o.pool_no = $1
                   and o.tenant_id = asked.tenant_id
                   and o.message_group = asked.message_group
                   and o.standing in ('open', 'again')
                   and o.mode <> 'IMMEDIATE'
                 order by o.sequence, o.position
                 limit $4)
               union all
               (select *
                  from dispatch_jobs b
                 where b.pool_no = $1
                   and b.tenant_id = asked.tenant_id
                   and b.message_group = asked.message_group
                   and b.standing = 'error'
                   and b.mode = 'BLOCK_ON_ERROR'
                 order by b.sequence, b.position
                 limit $4)) as e
        order by e.sequence, e.position
        limit $4) as j
  left join subscriptions s
         on s.tenant_id = any(array[j.tenant_id]) and s.subscription_id = j.subscription_id
 order by j.tenant_id, j.message_group, j.sequence, j.position;

-- name: expire_jobs
-- End at most $2 expired jobs of pool $1, oldest first. Jobs that are being sent end with their
-- attempt; locked rows are left to the next call.
-- Served by: dispatch_jobs_expiry, dispatch_jobs_pkey.
with over as (
    select o.tenant_id, o.job_id
      from dispatch_jobs o
     where o.pool_no = $1
       and o.standing in ('open', 'again')
       and o.expires_at <= now()
       and (o.status <> 'IN_PROGRESS' or o.lease_until < now())
     order by o.expires_at
     limit $2
       for update skip locked
)
update dispatch_jobs j
   set status = 'EXPIRED',
       standing = 'done',
       scheduled_for = null,
       lease_until = null,
       owner = null,
       completed_at = now(),
       last_error = $3,
       updated_at = now()
  from over
 where j.tenant_id = any(array[over.tenant_id]) and j.job_id = over.job_id
returning j.tenant_id, j.job_id;

-- name: mark_pending
-- Mark jobs that no process has in memory, so that the pool's next scan finds them.
-- Served by: dispatch_jobs_pkey.
update dispatch_jobs j
   set status = 'PENDING', standing = 'again', updated_at = now()
  from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
 where j.tenant_id = any(array[asked.tenant_id])
   and j.job_id = asked.job_id
   and j.status = 'QUEUED';

-- name: jobs_not_failed
-- Those of these jobs that have not failed, or that an operator has dealt with.
-- Served by: dispatch_jobs_pkey.
select asked.tenant_id, asked.job_id
  from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
  left join dispatch_jobs j
         on j.tenant_id = any(array[asked.tenant_id]) and j.job_id = asked.job_id
 where j.standing is distinct from 'error';

-- name: parked_groups
-- The parked groups of pool $1.
-- Served by: dispatch_parked_groups_pkey.
select tenant_id, message_group from dispatch_parked_groups where pool_no = $1;

-- name: recent_starts
-- How many seconds ago pool $1 began each delivery of the last minute, oldest first; for deliveries
-- that were in progress when the pool stopped, the time of the claim.
-- Served by: dispatch_attempts_recent, dispatch_jobs_pkey, dispatch_jobs_open.
select extract(epoch from now() - began.at)::float8 as ago
  from (select a.attempted_at as at
          from dispatch_attempts a
          join dispatch_jobs j on j.tenant_id = any(array[a.tenant_id]) and j.job_id = a.job_id
         where a.attempted_at > now() - interval '61 seconds'
           and (j.pool_no = $1) is true
         union all
        select updated_at
          from dispatch_jobs
         where pool_no = $1
           and standing in ('open', 'again')
           and status = 'IN_PROGRESS'
           and updated_at > now() - interval '61 seconds') as began
 order by began.at;
