-- name: claim_jobs
-- Take jobs to send them: $1 tenants, $2 job ids, for pool $3, by $4, for their time-out and $5
-- seconds more. Left out are those that somebody has, that are not due, over or another pool's,
-- and those that are not their group's next: one that blocks on error waits for everything before
-- it, one that does not only for what is under way or was never sent.
-- `(…) is true` keeps the planner from the index of all open jobs: it would read each of them.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_group, events_pkey, subscriptions_pkey.
with won as (
    update dispatch_jobs j
       set status = 'IN_PROGRESS',
           standing = 'open',
           sends = j.sends + 1,
           owner = $4,
           lease_until = now() + (j.timeout_seconds + $5) * interval '1 second',
           updated_at = now()
      from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
     where j.tenant_id = asked.tenant_id
       and j.job_id = asked.job_id
       and (j.pool_no = $3) is true
       and (j.standing in ('open', 'again')) is true
       and (j.status <> 'IN_PROGRESS' or j.lease_until < now())
       -- Clocks differ by some milliseconds, and a job that is refused is looked up again at once.
       and (j.scheduled_for is null or j.scheduled_for < now() + interval '250 milliseconds')
       and (j.mode = 'IMMEDIATE' or j.message_group is null or not exists (
            select from dispatch_jobs e
             where e.pool_no = j.pool_no
               and e.tenant_id = j.tenant_id
               and e.message_group = j.message_group
               and e.standing <> 'done'
               and e.mode <> 'IMMEDIATE'
               and (e.sequence, e.position) < (j.sequence, j.position)
               and (e.standing <> 'error'
                    or j.mode = 'BLOCK_ON_ERROR' and e.mode = 'BLOCK_ON_ERROR')
               and (j.mode = 'BLOCK_ON_ERROR' or e.status = 'IN_PROGRESS' or e.sends = 0)))
    returning j.tenant_id, j.job_id, j.sends, j.attempt_count, j.max_retries, j.timeout_seconds,
              j.kind, j.code, j.source, j.subject, j.event_tenant, j.event_id, j.correlation_id,
              j.target_url, j.data_only, j.created_at, j.expires_at, j.payload, j.content_type,
              j.headers, j.auth, j.subscription_id, j.idempotency_key
)
select w.tenant_id, w.job_id, w.sends, w.attempt_count, w.max_retries, w.timeout_seconds, w.kind,
       w.code, w.source, w.subject, w.event_id, w.correlation_id, w.target_url, w.data_only,
       extract(epoch from w.created_at)::float8 as created_at,
       coalesce(extract(epoch from w.expires_at), 0)::float8 as expires_at,
       coalesce(w.payload, e.data) as payload,
       coalesce(w.content_type, e.content_type) as content_type,
       w.headers, w.auth, w.idempotency_key, w.subscription_id,
       s.version as subscription_version,
       e.type as event_type, e.source as event_source, e.subject as event_subject,
       extract(epoch from e.time)::float8 as event_time, e.message_group as event_group,
       e.causation_id, e.spec_version, e.type_version, e.data_schema, e.extensions
  from won w
  left join events e on e.tenant_id = w.event_tenant and e.event_id = w.event_id
  left join subscriptions s on s.tenant_id = w.tenant_id and s.subscription_id = w.subscription_id;

-- name: finish_jobs
-- What became of jobs that were taken. One that was taken again since belongs to somebody else:
-- only what was sent is noted. Returns those that were kept, and when they go again.
-- Served by: dispatch_jobs_pkey.
with said as (
    select * from unnest($1::sent_job[])
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
       standing = said.standing,
       attempt_count = said.attempt_count,
       scheduled_for = now() + said.wait * interval '1 second',
       lease_until = null,
       owner = null,
       last_attempt_at = coalesce(to_timestamp(said.attempted_at), j.last_attempt_at),
       completed_at = case when said.standing = 'done' then now() end,
       last_error = said.last_error,
       updated_at = now()
  from said
 where j.tenant_id = said.tenant_id
   and j.job_id = said.job_id
   and j.sends = said.send_no
   and j.status = 'IN_PROGRESS'
returning j.tenant_id, j.job_id, coalesce(extract(epoch from j.scheduled_for), 0)::float8 as due;

-- name: scan_jobs
-- What pool $1 has to do, in the order it was stored, after $2.
-- Served by: dispatch_jobs_open.
select tenant_id, job_id, position, target_url, mode, message_group, sequence,
       coalesce(extract(epoch from case when status = 'IN_PROGRESS' then lease_until
                                        else scheduled_for end), 0)::float8 as due,
       status <> 'IN_PROGRESS' and sends > 0 as retrying, false as stuck
  from dispatch_jobs
 where pool_no = $1 and position > $2 and standing in ('open', 'again')
 order by position
 limit $3;

-- name: jobs_again
-- What pool $1 is to look at again.
-- Served by: dispatch_jobs_again.
select tenant_id, job_id, position, target_url, mode, message_group, sequence,
       coalesce(extract(epoch from scheduled_for), 0)::float8 as due, false as retrying,
       false as stuck
  from dispatch_jobs
 where pool_no = $1 and position > $2 and standing = 'again'
 order by position
 limit $3;

-- name: find_jobs
-- Those of these jobs of pool $1 that are still to be done.
-- Served by: dispatch_jobs_pkey.
select j.tenant_id, j.job_id, j.position, j.target_url, j.mode, j.message_group, j.sequence,
       coalesce(extract(epoch from case when j.status = 'IN_PROGRESS' then j.lease_until
                                        else j.scheduled_for end), 0)::float8 as due,
       j.status <> 'IN_PROGRESS' and j.sends > 0 as retrying, false as stuck
  from unnest($2::integer[], $3::text[]) as asked(tenant_id, job_id)
  join dispatch_jobs j using (tenant_id, job_id)
 where (j.pool_no = $1) is true and (j.standing in ('open', 'again')) is true;

-- name: read_groups
-- The first $4 jobs of each of these groups of pool $1, in their order, with what holds them.
-- Served by: dispatch_jobs_group.
select j.tenant_id, j.job_id, j.position, j.target_url, j.mode, j.message_group, j.sequence, j.due,
       j.retrying, j.stuck
  from unnest($2::integer[], $3::text[]) as asked(tenant_id, message_group)
 cross join lateral (
       select e.tenant_id, e.job_id, e.position, e.target_url, e.mode, e.message_group, e.sequence,
              coalesce(extract(epoch from case when e.status = 'IN_PROGRESS' then e.lease_until
                                               else e.scheduled_for end), 0)::float8 as due,
              e.status <> 'IN_PROGRESS' and e.sends > 0 as retrying,
              e.standing = 'error' as stuck
         from dispatch_jobs e
        where e.pool_no = $1
          and e.tenant_id = asked.tenant_id
          and e.message_group = asked.message_group
          and e.standing <> 'done'
          and e.mode <> 'IMMEDIATE'
          -- A job that others pass by when it fails holds nobody once it has failed for good.
          and (e.standing <> 'error' or e.mode = 'BLOCK_ON_ERROR')
        order by e.sequence, e.position
        limit $4) as j;

-- name: mark_pending
-- No pool has these: whoever looks for such jobs finds them.
-- Served by: dispatch_jobs_pkey.
update dispatch_jobs j
   set status = 'PENDING', standing = 'again', updated_at = now()
  from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
 where j.tenant_id = asked.tenant_id
   and j.job_id = asked.job_id
   and j.status = 'QUEUED';

-- name: jobs_not_failed
-- Those of these jobs that have not failed, or failed and were seen to by a person.
-- Served by: dispatch_jobs_pkey.
select asked.tenant_id, asked.job_id
  from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
  left join dispatch_jobs j using (tenant_id, job_id)
 where j.standing is distinct from 'error';

-- name: parked_groups
-- Groups of pool $1 that people hold back.
-- Served by: dispatch_parked_groups_pkey.
select tenant_id, message_group from dispatch_parked_groups where pool_no = $1;

-- name: recent_starts
-- How many seconds ago pool $1 began each delivery of the last minute, the oldest first; of those
-- that were under way when it ended, when they were taken.
-- Served by: dispatch_attempts_recent, dispatch_jobs_pkey, dispatch_jobs_open.
select extract(epoch from now() - began.at)::float8 as ago
  from (select a.attempted_at as at
          from dispatch_attempts a
          join dispatch_jobs j using (tenant_id, job_id)
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
