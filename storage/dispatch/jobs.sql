-- `any(array(…))`: force look-ups by key; see storage/postgres/pool.py.

-- name: create_jobs
-- Store posted jobs in their order. Returns each as it is stored: for a known key, the first job
-- with that key. A key that another transaction stores at the same moment is not returned.
-- Served by: dispatch_jobs_once.
with wished as (
    select *
      from unnest($2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::text[], $9::text[], $10::text[], $11::text[], $12::integer[], $13::integer[],
                  $14::integer[], $15::boolean[], $16::float8[], $17::float8[], $18::text[],
                  $19::bytea[], $20::text[], $21::text[], $22::text[], $23::text[], $24::json[],
                  $25::json[], $26::json[])
           with ordinality
           as w(job_id, pool_no, code, source, subject, correlation_id, external_id, target_url,
                message_group, mode, sequence, max_retries, timeout_seconds, data_only,
                scheduled_for, expires_at, idempotency_key, payload, content_type, signature,
                client_id, schema_id, headers, auth, metadata, place)
), made as (
    insert into dispatch_jobs
           (tenant_id, job_id, pool_no, kind, code, source, subject, correlation_id, external_id,
            target_url, message_group, mode, sequence, max_retries, timeout_seconds, data_only,
            scheduled_for, expires_at, idempotency_key, payload, content_type, signature,
            client_id, schema_id, headers, auth, metadata)
    select $1, job_id, pool_no, 'TASK', code, source, subject, correlation_id, external_id,
           target_url, message_group, mode, sequence, max_retries, timeout_seconds, data_only,
           to_timestamp(scheduled_for), to_timestamp(expires_at), idempotency_key, payload,
           content_type, signature, client_id, schema_id, headers, auth, metadata
      from wished
     order by place
        on conflict (tenant_id, idempotency_key) where idempotency_key is not null do nothing
    returning job_id, pool_no, position, idempotency_key
), kept as (
    select job_id, pool_no, position, idempotency_key from made
    union all
    select job_id, pool_no, position, idempotency_key
      from dispatch_jobs
     where tenant_id = $1 and idempotency_key = any($18::text[])
)
select w.place, k.job_id, k.pool_no, k.position, k.job_id <> w.job_id as known
  from wished w
  join kept k on k.job_id = w.job_id or k.idempotency_key = w.idempotency_key
 order by w.place;

-- name: read_jobs
-- These jobs, newest first; with $3 also their payloads, which may be large. Open and failed jobs
-- show the current target of their subscription.
-- Served by: dispatch_jobs_pkey, events_pkey, subscriptions_pkey.
select j.job_id, j.position, j.pool_no, p.pool_id, p.code as pool_code, j.kind, j.code, j.source,
       j.subject, j.event_id,
       case when j.tenant_id = 0
            then (select t.slug from tenants t where t.tenant_id = j.event_tenant)
             end as event_tenant, j.subscription_id, j.correlation_id, j.external_id,
       j.client_id, j.schema_id,
       case when j.standing = 'done' or j.status = 'IN_PROGRESS' then j.target_url
            else coalesce(s.target, j.target_url) end as target_url,
       j.message_group, j.mode, j.sequence, j.max_retries, j.timeout_seconds, j.data_only,
       j.status, j.standing, j.attempt_count, j.sends, j.last_error, j.idempotency_key,
       coalesce(j.content_type, e.content_type) as content_type, j.headers, j.metadata,
       j.auth is not null as has_auth, coalesce(j.signature, s.signature) as signature,
       case when $3 then coalesce(j.payload, e.data) end as payload,
       extract(epoch from j.scheduled_for)::float8 as scheduled_for,
       extract(epoch from j.expires_at)::float8 as expires_at,
       extract(epoch from j.last_attempt_at)::float8 as last_attempt_at,
       extract(epoch from j.completed_at)::float8 as completed_at,
       extract(epoch from j.ignored_at)::float8 as ignored_at,
       extract(epoch from j.created_at)::float8 as created_at,
       extract(epoch from j.updated_at)::float8 as updated_at
  from dispatch_jobs j
  join dispatch_pools p using (pool_no)
  left join events e on $3 and e.tenant_id = j.event_tenant and e.event_id = j.event_id
  left join subscriptions s
         on s.tenant_id = j.tenant_id and s.subscription_id = j.subscription_id
 where j.tenant_id = $1 and j.job_id = any($2::text[])
 order by j.job_id desc;

-- name: look_back_at_jobs
-- The limits of one bounded scan of a tenant's jobs between $2 and $3, newest first: the last of $4
-- jobs that it reads, and the next one.
-- Served by: dispatch_jobs_pkey.
select job_id
  from dispatch_jobs
 where tenant_id = $1 and job_id > $2 and job_id < $3
 order by job_id desc
offset $4
 limit 2;

-- name: look_ahead_at_jobs
-- As look_back_at_jobs, oldest first.
-- Served by: dispatch_jobs_pkey.
select job_id
  from dispatch_jobs
 where tenant_id = $1 and job_id > $2 and job_id < $3
 order by job_id
offset $4
 limit 2;

-- part: job_filter
tenant_id = :tenant
   and job_id > :after
   and job_id < :before
   and (:statuses::text[] is null or status = any(:statuses))
   and (:standing::text is null or standing = :standing)
   and (:ignored::boolean is null or :ignored = (ignored_at is not null))
   and (:kind::text is null or kind = :kind)
   and (:source::text is null or source = :source)
   and (:code::text is null or code = :code)
   and (:subscription_id::text is null or subscription_id = :subscription_id)
   and (:message_group::text is null or message_group = :message_group)
   and (:event_id::text is null or event_id = :event_id)
   and (:correlation_id::text is null or correlation_id = :correlation_id)
   and (:pools::integer[] is null or pool_no = any(:pools))
   and (:created_after::float8 is null or created_at >= to_timestamp(:created_after))
   and (:created_before::float8 is null or created_at < to_timestamp(:created_before))
   and (:failed_after::float8 is null
        or coalesce(last_attempt_at, updated_at) >= to_timestamp(:failed_after))
   and (:failed_before::float8 is null
        or coalesce(last_attempt_at, updated_at) < to_timestamp(:failed_before))
   and (:client_id::text is null or client_id = :client_id)

-- name: list_jobs
-- Ids of a tenant's jobs, newest first, between two ids. Null filters match all. Indexes serve
-- standing and event; for the other filters everything between the ids is read, so the caller
-- bounds that range.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_error, dispatch_jobs_event.
select job_id from dispatch_jobs where {job_filter} order by job_id desc limit :limit offset :skip;

-- name: next_jobs
-- As list_jobs, oldest first.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_error, dispatch_jobs_event.
select job_id from dispatch_jobs where {job_filter} order by job_id limit :limit;

-- name: count_jobs
-- Count matching jobs, up to a limit. Rows that do not match are read, too.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_error, dispatch_jobs_event.
select count(*) from (select from dispatch_jobs where {job_filter} limit :limit) as counted;

-- name: job_options
-- The values by which a tenant's latest $2 jobs can be filtered.
-- Served by: dispatch_jobs_pkey.
with latest as (
    select code, source, subscription_id, pool_no
      from dispatch_jobs
     where tenant_id = $1
     order by job_id desc
     limit $2
)
select 'code' as name, code as value, code as label from latest group by code
union all
select 'source', source, source from latest where source is not null group by source
union all
select 'subscription', l.subscription_id, coalesce(s.name, l.subscription_id)
  from (select distinct subscription_id from latest where subscription_id is not null) l
  left join subscriptions s on s.tenant_id = $1 and s.subscription_id = l.subscription_id
union all
select 'pool', p.code, max(p.name)
  from (select distinct pool_no from latest) l
  join dispatch_pools p using (pool_no)
 group by p.code
 order by 1, 2;

-- name: list_attempts
-- The attempts of a job, oldest first, after $3.
-- Served by: dispatch_attempts_pkey.
select send_no, attempt_number, extract(epoch from attempted_at)::float8 as attempted_at,
       duration_ms, status, response_code, response_body, error_type, error_message
  from dispatch_attempts
 where tenant_id = $1 and job_id = $2 and send_no > $3
 order by send_no
 limit $4;

-- name: latest_attempts
-- The last attempts of a job, newest first.
-- Served by: dispatch_attempts_pkey.
select send_no, attempt_number, extract(epoch from attempted_at)::float8 as attempted_at,
       duration_ms, status, response_code, response_body, error_type, error_message
  from dispatch_attempts
 where tenant_id = $1 and job_id = $2
 order by send_no desc
 limit $3;

-- name: forget_jobs
-- Delete a batch of a tenant's ended jobs with ids before $2, and their attempts, except failed
-- jobs that block a group: without them the group would go on unasked.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_group, dispatch_jobs_group_blocked,
-- dispatch_attempts_pkey.
with old as (
    select j.job_id
      from dispatch_jobs j
     where j.tenant_id = $1
       and j.job_id < $2
       and j.standing in ('done', 'error')
       and (j.standing = 'done' or j.mode = 'IMMEDIATE' or j.message_group is null or not (
            exists (select from dispatch_jobs o
                     where o.pool_no = j.pool_no
                       and o.tenant_id = j.tenant_id
                       and o.message_group = j.message_group
                       and o.standing in ('open', 'again')
                       and o.mode <> 'IMMEDIATE'
                       and o.mode = 'BLOCK_ON_ERROR'
                       and (o.sequence, o.position) > (j.sequence, j.position))
            or exists (select from dispatch_jobs b
                        where b.pool_no = j.pool_no
                          and b.tenant_id = j.tenant_id
                          and b.message_group = j.message_group
                          and b.standing = 'error'
                          and b.mode = 'BLOCK_ON_ERROR'
                          and (b.sequence, b.position) > (j.sequence, j.position))))
     order by j.job_id
     limit $3
), attempts as (
    delete from dispatch_attempts
     where tenant_id = $1 and job_id = any(array(select job_id from old))
)
delete from dispatch_jobs
 where tenant_id = $1
   and job_id = any(array(select job_id from old))
   and standing in ('done', 'error')
returning job_id;
