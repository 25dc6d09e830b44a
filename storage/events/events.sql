-- `any(array[…])`, `offset 0`: force look-ups by key; see storage/postgres/pool.py.

-- name: flush_events
-- Store events ($1), and jobs ($2) for those that are new. An event whose id or deduplication key
-- is already stored changes nothing. Returns each event that was stored, and each job with its
-- position.
with stored as (
    insert into events
           (tenant_id, event_id, spec_version, type, source, subject, time, data, content_type,
            data_schema, type_version, execution_id, correlation_id, causation_id,
            deduplication_id, message_group, context, extensions)
    select e.tenant_id, e.event_id, e.spec_version, e.type, e.source, e.subject,
           to_timestamp(e.time), e.data, e.content_type, e.data_schema, e.type_version,
           e.execution_id, e.correlation_id, e.causation_id, e.deduplication_id,
           e.message_group, e.context, e.extensions
      from unnest($1::stored_event[]) as e
        on conflict do nothing
    returning tenant_id, event_id
), made as (
    insert into dispatch_jobs
           (tenant_id, job_id, pool_no, kind, code, source, subject, event_tenant, event_id,
            subscription_id, correlation_id, target_url, message_group, mode, sequence,
            max_retries, timeout_seconds, data_only, scheduled_for, expires_at, idempotency_key,
            client_id)
    select j.tenant_id, j.job_id, j.pool_no, 'EVENT', j.code, j.source, j.subject,
           j.event_tenant, j.event_id, j.subscription_id, j.correlation_id, j.target_url,
           j.message_group, j.mode, j.sequence, j.max_retries, j.timeout_seconds, j.data_only,
           case when j.delay_seconds > 0
                then now() + j.delay_seconds * interval '1 second' end,
           case when j.max_age_seconds > 0
                then now() + j.max_age_seconds * interval '1 second' end,
           j.event_id || ':' || j.subscription_id, j.client_id
      from unnest($2::event_job[]) with ordinality as j
     where ((j.event_tenant, j.event_id) in (select tenant_id, event_id from stored)) is true
     order by j.ordinality
    returning tenant_id, job_id, position,
              extract(epoch from scheduled_for)::float8 as due
)
select tenant_id, event_id as id, null::bigint as position, null::float8 as due
  from stored
 union all
select tenant_id, job_id, position, due
  from made;

-- name: known_events
-- Stored events of the tenants $1 with one of these ids ($2) or deduplication keys ($3); asked_id
-- says which was asked for.
-- Served by: events_pkey, events_once.
select asked.event_id as asked_id, e.tenant_id, e.event_id, e.spec_version, e.type, e.source,
       e.subject, extract(epoch from e.time)::float8 as time, e.data, e.content_type,
       e.data_schema, e.type_version, e.execution_id, e.correlation_id, e.causation_id,
       e.deduplication_id, e.message_group, e.context, e.extensions
  from unnest($1::int[], $2::text[], $3::text[]) as asked(tenant_id, event_id, deduplication_id)
 cross join lateral (
       select k.*
         from events k
        where k.tenant_id = asked.tenant_id and k.event_id = asked.event_id
        union all
       select k.*
         from events k
        where k.tenant_id = asked.tenant_id and k.deduplication_id = asked.deduplication_id
        limit 1) as e;

-- name: known_jobs
-- The positions of these jobs, for an event that was stored without an acknowledgement.
-- Served by: dispatch_jobs_pkey.
select j.tenant_id, j.job_id, j.position, extract(epoch from j.scheduled_for)::float8 as due
  from unnest($1::int[], $2::text[]) as asked(tenant_id, job_id)
  join dispatch_jobs j on j.tenant_id = any(array[asked.tenant_id]) and j.job_id = asked.job_id;

-- name: read_event
-- One event with its data.
-- Served by: events_pkey.
select tenant_id, event_id, spec_version, type, source, subject,
       extract(epoch from time)::float8 as time, data, content_type, data_schema, type_version,
       execution_id, correlation_id, causation_id, deduplication_id, message_group, context,
       extensions
  from events
 where tenant_id = $1 and event_id = $2;

-- name: look_back_at_events
-- The limits of one bounded scan of a tenant's events from $2 down to $3, newest first: the last of
-- $4 events that it reads, and the next one.
-- Served by: events_pkey.
select event_id
  from events
 where tenant_id = $1 and event_id < $2 and event_id >= $3
 order by event_id desc
offset $4
 limit 2;

-- name: list_events
-- A page of a tenant's events without their data, newest first, from $2 down to $3. Null filters
-- match all. Indexes serve type and context; for the other filters everything from $2 to $3 is
-- read, so the caller bounds that range.
-- Served by: events_pkey, events_type, events_context.
select tenant_id, event_id, spec_version, type, source, subject,
       extract(epoch from time)::float8 as time, null::bytea as data, content_type, data_schema,
       type_version, execution_id, correlation_id, causation_id, deduplication_id,
       message_group, context, extensions, octet_length(data) as size
  from events
 where tenant_id = $1
   and event_id < $2
   and event_id >= $3
   and ($4::text is null or type = $4)
   and ($5::text is null or type ~ $5)
   and ($6::text is null or source = $6)
   and ($7::text is null or subject = $7)
   and ($8::text is null or correlation_id = $8)
   and ($9::text is null or message_group = $9)
   and ($10::text[] is null or context @> $10)
   and ($11::float8 is null or time >= to_timestamp($11))
   and ($12::float8 is null or time < to_timestamp($12))
 order by event_id desc
 limit $13;

-- name: forget_events
-- Delete a batch of events with ids below $1 that no job needs any more.
-- Served by: events_pkey, dispatch_jobs_event.
with old as (
    select e.tenant_id, e.event_id
      from tenants t
     cross join lateral (
           select k.tenant_id, k.event_id
             from events k
            where k.tenant_id = t.tenant_id
              and k.event_id < $1
              and not exists (select from dispatch_jobs j
                               where j.event_id = k.event_id and j.event_tenant = k.tenant_id
                              offset 0)
            order by k.event_id
            limit $2) as e
     limit $2
)
delete from events e
 using old
 where e.tenant_id = any(array[old.tenant_id]) and e.event_id = old.event_id
returning e.event_id;
