-- The statements of the release before this one, as its code sends them. They must go on
-- working on the newest schema: the two run side by side while a cluster is upgraded.
-- Recorded by: python -m tests.contract.previous_release, at that release.

-- file: access.sql
-- name: create_tenant
-- The tenant of this slug, made if it is new.
insert into tenants (slug) values ($1)
    on conflict (slug) do update set slug = excluded.slug
returning tenant_id;

-- name: find_tenant
select tenant_id from tenants where slug = $1;

-- name: tenant_slug
select slug from tenants where tenant_id = $1;

-- name: create_key
insert into api_keys (prefix, tenant_id, name, secret_hash, permissions, expires_at)
values ($1, $2, $3, $4, $5, now() + $6 * interval '1 second');

-- name: count_keys
-- How many live keys a tenant has.
select count(*) from api_keys
 where tenant_id = $1 and revoked_at is null and (expires_at is null or expires_at > now());

-- name: find_key
-- The key behind a prefix, if it is live, and for how many seconds it will be.
select tenant_id, name, secret_hash, permissions,
       extract(epoch from expires_at - now())::float8 as lives
  from api_keys
 where prefix = $1
   and revoked_at is null
   and (expires_at is null or expires_at > now());

-- name: list_keys
select prefix, name, permissions,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from expires_at)::float8 as expires_at,
       extract(epoch from revoked_at)::float8 as revoked_at,
       extract(epoch from last_used_at)::float8 as last_used_at
  from api_keys
 where tenant_id = $1
 order by created_at desc;

-- name: revoke_key
update api_keys set revoked_at = coalesce(revoked_at, now())
 where tenant_id = $1 and prefix = $2
returning prefix;

-- name: touch_keys
-- Remember when these keys were last used.
update api_keys set last_used_at = now() where prefix = any($1::text[]);

-- name: live_secrets
-- The secrets for a purpose, newest first: sign with the first, accept any.
select secret from signing_secrets
 where purpose = $1 and retired_at is null
 order by secret_id desc;

-- name: create_secret
-- The first secret for a purpose; does nothing if there is one.
insert into signing_secrets (purpose, secret)
select $1, $2
 where not exists (select from signing_secrets where purpose = $1 and retired_at is null);

-- name: list_tenants
select slug, tenant_id from tenants order by slug;

-- name: list_profiles
select correlation_field, execution_field, correlation_header, execution_header
  from id_profiles
 where tenant_id = $1
 order by created_at;

-- name: create_profile
insert into id_profiles
       (tenant_id, correlation_field, execution_field, correlation_header, execution_header)
values ($1, $2, $3, $4, $5)
    on conflict do nothing;

-- file: audit.sql
-- `any(array[…])`: how writers keep to keys; see storage/postgres/pool.py.

-- name: audit_waits
-- These waits with what only their rows know, for whoever holds them against an account of his own.
-- Served by: execution_wait_states_pkey.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at,
       w.resumed_at is not null as resumed
  from execution_wait_states w
  join wait_specs s on s.tenant_id = any(array[w.tenant_id]) and s.spec_id = w.spec_id
 where w.wait_key = any($1::bytea[]);

-- name: audit_lines
-- Every line of the logs of these waits.
-- Served by: wait_state_events_pkey.
select wait_key, seq, kind, event, event_id, source, label, content_type, payload,
       extract(epoch from at)::float8 as at
  from wait_state_events
 where wait_key = any($1::bytea[])
 order by wait_key, seq;

-- name: audit_parked
-- Everything the inbox has for these addresses.
-- Served by: event_inbox_event.
select wait_key, tenant_id, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from event_inbox
 where wait_key = any($1::bytea[]);

-- name: audit_waiting
-- Which of these waits have not ended.
-- Served by: execution_wait_states_pkey.
select wait_key from execution_wait_states where wait_key = any($1::bytea[]) and status = 'waiting';

-- file: changes.sql
-- name: notify_change
-- Tell every process that listens, once this transaction is committed, what has changed.
select pg_notify('muster_changes', $1);

-- name: hold_tenant
-- Nobody else who asks for this goes on before this transaction ends.
-- Served by: tenants_pkey.
select tenant_id from tenants where tenant_id = $1 for no key update;

-- file: dead_letters.sql
-- `any(array(…))`: how writers keep to keys; see storage/postgres/pool.py.

-- name: bury
-- Keep records that could not be handled. One that fails again counts its attempts. Another one at
-- the same place, of a topic that was deleted and made again, takes the place over.
insert into dead_letters
       (tenant_id, topic, kafka_partition, kafka_offset, record_key, headers, payload, error)
select l.tenant_id, l.topic, l.kafka_partition, l.kafka_offset, l.record_key, l.headers, l.payload,
       l.error
  from unnest($1::dead_letter[]) as l
    on conflict (topic, kafka_partition, kafka_offset, tenant_id) do update
   set error = excluded.error,
       attempts = case when dead_letters.payload is distinct from excluded.payload then 1
                       else dead_letters.attempts + 1 end,
       failed_at = now(),
       redriven_at = null,
       record_key = excluded.record_key,
       headers = excluded.headers,
       payload = excluded.payload
 where dead_letters.redriven_at is null
    or dead_letters.payload is distinct from excluded.payload;

-- name: list_letters
-- A page of a tenant's dead letters, newest first: open ones, or ($4) those handled after all.
-- Null filters are off.
-- Served by: dead_letters_recent.
select letter_id, topic, kafka_partition, kafka_offset,
       octet_length(payload) as size, error, attempts,
       extract(epoch from failed_at)::float8 as failed_at,
       extract(epoch from redriven_at)::float8 as redriven_at
  from dead_letters
 where tenant_id = $1
   and ($2::text is null or topic = $2)
   and ($3::text is null or position(lower($3) in lower(error)) > 0)
   and $4::boolean = (redriven_at is not null)
   and ($5::bigint is null or letter_id < $5)
 order by letter_id desc
 limit $6;

-- name: next_letters
-- The next open dead letters to try again, oldest first, as they were on their topics.
-- Served by: dead_letters_recent.
select letter_id, coalesce(octet_length(payload), 0) as size
  from dead_letters
 where tenant_id = $1
   and redriven_at is null
   and ($2::text is null or topic = $2)
   and ($3::text is null or position(lower($3) in lower(error)) > 0)
   and letter_id > $4
 order by letter_id
 limit $5;

-- name: count_next_letters
-- How many open dead letters come after $4.
-- Served by: dead_letters_recent.
select count(*)
  from dead_letters
 where tenant_id = $1
   and redriven_at is null
   and ($2::text is null or topic = $2)
   and ($3::text is null or position(lower($3) in lower(error)) > 0)
   and letter_id > $4;

-- name: size_letters
-- These dead letters, handled or not, by their sizes.
-- Served by: dead_letters_pkey.
select letter_id, coalesce(octet_length(payload), 0) as size
  from dead_letters
 where tenant_id = $1 and letter_id = any($2::bigint[])
 order by letter_id;

-- name: read_letters
-- These dead letters, whole.
select letter_id, tenant_id, topic, kafka_partition, kafka_offset, record_key, headers, payload,
       error, attempts,
       extract(epoch from failed_at)::float8 as failed_at,
       extract(epoch from redriven_at)::float8 as redriven_at
  from dead_letters
 where tenant_id = $1 and letter_id = any($2::bigint[])
 order by letter_id;

-- name: settle_letters
-- These were handled after all.
update dead_letters set redriven_at = now()
 where tenant_id = $1 and letter_id = any($2::bigint[]) and redriven_at is null;

-- name: fail_letters
-- These failed again.
update dead_letters d
   set error = f.error, attempts = d.attempts + 1, failed_at = now()
  from unnest($2::bigint[], $3::text[]) as f(letter_id, error)
 where d.tenant_id = $1 and d.letter_id = f.letter_id and d.redriven_at is null;

-- name: delete_letter
-- Forget one.
delete from dead_letters where tenant_id = $1 and letter_id = $2 returning letter_id;

-- name: forget_letters
-- Forget a batch that was handled, or that nobody cared for, $1 seconds ago.
-- Served by: dead_letters_age.
delete from dead_letters
 where ctid = any(array(
       select ctid from dead_letters
        where coalesce(redriven_at, failed_at) < now() - $1 * interval '1 second'
        order by coalesce(redriven_at, failed_at)
        limit $2))
   and coalesce(redriven_at, failed_at) < now() - $1 * interval '1 second'
returning letter_id;

-- name: count_letters
-- How many dead letters of a tenant are open, by topic.
-- Served by: dead_letters_recent.
select topic, count(*) as letters
  from dead_letters
 where tenant_id = $1 and redriven_at is null
 group by topic
 order by topic;

-- file: deadlines.sql
-- name: due_waits
-- Waits whose next deadline lies in ($1, $2], soonest first.
-- Served by: execution_wait_states_due.
select tenant_id, execution_id, correlation_id, extract(epoch from due_at)::float8 as due_at
  from execution_wait_states
 where due_at > to_timestamp($1)
   and due_at <= to_timestamp($2)
   and status = 'waiting'
 order by due_at
 limit $3;

-- name: read_mark
-- How far everything has fired.
select extract(epoch from swept_until)::float8 from timer_marks where name = $1;

-- name: write_mark
-- Move the mark forward; it never goes back.
insert into timer_marks (name, swept_until)
values ($1, to_timestamp($2))
    on conflict (name) do update
   set swept_until = greatest(timer_marks.swept_until, excluded.swept_until);

-- name: read_clock
-- The clock that all deadlines are compared with.
select extract(epoch from clock_timestamp())::float8;

-- file: dispatch_groups.sql
-- name: walk_groups
-- The next $5 groups of a tenant in the pools $4 that have jobs to deliver, after pool $2 and name
-- $3. It goes from group to group, however many jobs each has.
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
-- The next $5 groups of a tenant in the pools $4 that are held back, after pool $2 and name $3.
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
-- Of each of these groups of a tenant: how many jobs are to be delivered, up to $4, and who holds
-- it back.
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
-- In which of the pools $3 a tenant's group $2 has jobs or is held back.
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
-- Ids of the jobs of a tenant's group $3 in pool $2 that are not done, in their order, after the
-- place $4, $5.
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
-- Hold a group back, or give another reason for it. Nothing: $6 others are held back already.
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
-- Hold it back no longer.
delete from dispatch_parked_groups
 where pool_no = $1 and tenant_id = $2 and message_group = $3
returning message_group;

-- file: dispatch_jobs.sql
-- `any(array(…))`: how writers keep to keys; see storage/postgres/pool.py.

-- name: create_jobs
-- Store jobs that somebody posted, in their order. Each comes back as it is kept: one whose key is
-- known as the first with that key. One that somebody else stores this moment does not come back.
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
-- These jobs, newest first; with $3 also what they bring, which may be large. One that is still to
-- be sent, or failed, goes where its subscription wants it now.
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
-- Of a tenant's jobs between $2 and $3, newest first, the one before which $4 lie, and the next:
-- what a look of so many reads last, and what it does not read.
-- Served by: dispatch_jobs_pkey.
select job_id
  from dispatch_jobs
 where tenant_id = $1 and job_id > $2 and job_id < $3
 order by job_id desc
offset $4
 limit 2;

-- name: look_ahead_at_jobs
-- The same, oldest first.
-- Served by: dispatch_jobs_pkey.
select job_id
  from dispatch_jobs
 where tenant_id = $1 and job_id > $2 and job_id < $3
 order by job_id
offset $4
 limit 2;

-- name: list_jobs
-- Ids of a tenant's jobs, newest first, between $2 and $3. Null filters are off. Of the filters,
-- indexes serve standing and event; for the others all between $2 and $3 are read, so the caller
-- keeps these close.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_error, dispatch_jobs_event.
select job_id
  from dispatch_jobs
 where tenant_id = $1
   and job_id > $2
   and job_id < $3
   and ($4::text[] is null or status = any($4))
   and ($5::text is null or standing = $5)
   and ($6::boolean is null or $6 = (ignored_at is not null))
   and ($7::text is null or kind = $7)
   and ($8::text is null or source = $8)
   and ($9::text is null or code = $9)
   and ($10::text is null or subscription_id = $10)
   and ($11::text is null or message_group = $11)
   and ($12::text is null or event_id = $12)
   and ($13::text is null or correlation_id = $13)
   and ($14::integer[] is null or pool_no = any($14))
   and ($15::float8 is null or created_at >= to_timestamp($15))
   and ($16::float8 is null or created_at < to_timestamp($16))
   and ($17::float8 is null or coalesce(last_attempt_at, updated_at) >= to_timestamp($17))
   and ($18::float8 is null or coalesce(last_attempt_at, updated_at) < to_timestamp($18))
   and ($19::text is null or client_id = $19)
 order by job_id desc
 limit $20 offset $21;

-- name: next_jobs
-- The same, oldest first.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_error, dispatch_jobs_event.
select job_id
  from dispatch_jobs
 where tenant_id = $1
   and job_id > $2
   and job_id < $3
   and ($4::text[] is null or status = any($4))
   and ($5::text is null or standing = $5)
   and ($6::boolean is null or $6 = (ignored_at is not null))
   and ($7::text is null or kind = $7)
   and ($8::text is null or source = $8)
   and ($9::text is null or code = $9)
   and ($10::text is null or subscription_id = $10)
   and ($11::text is null or message_group = $11)
   and ($12::text is null or event_id = $12)
   and ($13::text is null or correlation_id = $13)
   and ($14::integer[] is null or pool_no = any($14))
   and ($15::float8 is null or created_at >= to_timestamp($15))
   and ($16::float8 is null or created_at < to_timestamp($16))
   and ($17::float8 is null or coalesce(last_attempt_at, updated_at) >= to_timestamp($17))
   and ($18::float8 is null or coalesce(last_attempt_at, updated_at) < to_timestamp($18))
   and ($19::text is null or client_id = $19)
 order by job_id
 limit $20;

-- name: count_jobs
-- How many there are, up to $20. What does not match is read, too.
-- Served by: dispatch_jobs_pkey, dispatch_jobs_error, dispatch_jobs_event.
select count(*)
  from (select
          from dispatch_jobs
         where tenant_id = $1
           and job_id > $2
           and job_id < $3
           and ($4::text[] is null or status = any($4))
           and ($5::text is null or standing = $5)
           and ($6::boolean is null or $6 = (ignored_at is not null))
           and ($7::text is null or kind = $7)
           and ($8::text is null or source = $8)
           and ($9::text is null or code = $9)
           and ($10::text is null or subscription_id = $10)
           and ($11::text is null or message_group = $11)
           and ($12::text is null or event_id = $12)
           and ($13::text is null or correlation_id = $13)
           and ($14::integer[] is null or pool_no = any($14))
           and ($15::float8 is null or created_at >= to_timestamp($15))
           and ($16::float8 is null or created_at < to_timestamp($16))
           and ($17::float8 is null or coalesce(last_attempt_at, updated_at) >= to_timestamp($17))
           and ($18::float8 is null or coalesce(last_attempt_at, updated_at) < to_timestamp($18))
           and ($19::text is null or client_id = $19)
         limit $20) as counted;

-- name: job_options
-- What a tenant's latest $2 jobs can be told apart by.
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
-- Each time a job was sent, oldest first, after $3.
-- Served by: dispatch_attempts_pkey.
select send_no, attempt_number, extract(epoch from attempted_at)::float8 as attempted_at,
       duration_ms, status, response_code, response_body, error_type, error_message
  from dispatch_attempts
 where tenant_id = $1 and job_id = $2 and send_no > $3
 order by send_no
 limit $4;

-- name: latest_attempts
-- The last times a job was sent, newest first.
-- Served by: dispatch_attempts_pkey.
select send_no, attempt_number, extract(epoch from attempted_at)::float8 as attempted_at,
       duration_ms, status, response_code, response_body, error_type, error_message
  from dispatch_attempts
 where tenant_id = $1 and job_id = $2
 order by send_no desc
 limit $3;

-- name: forget_jobs
-- Forget a batch of a tenant's jobs that were made before the id $2 and have ended, with their
-- attempts. Not those that failed and hold others back: these would go on without anybody's word.
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

-- file: dispatch_pools.sql
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

-- file: dispatch_queue.sql
-- `any(array[…])`, `offset 0`: how writers keep to keys; see storage/postgres/pool.py.

-- name: claim_jobs
-- Take jobs to send them: $1 tenants, $2 job ids, for pool $3, by $4, for their time-out and $5
-- seconds more. Left out are those that somebody has, that are not due, over or another pool's,
-- and those that are not their group's next: one that blocks on error waits for everything before
-- it, one that does not only for what is under way or was never sent.
-- A subscription's job goes where its subscription wants it now: what shows who calls is for there.
-- `(…) is true` keeps the planner from the index of all open jobs: it would read each of them.
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
-- What became of jobs that were taken. One that was taken again since belongs to somebody else:
-- only what was sent is noted. One that failed and whose subscription is gone holds nobody: there is
-- nobody left to see to it. Returns those that were kept, and when they go again.
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
-- Of jobs ($1 tenants, $2 ids) that are put off again and again, what was noted of it up to each $3.
-- Served by: dispatch_attempts_pkey.
delete from dispatch_attempts a
 using unnest($1::integer[], $2::text[], $3::integer[]) as asked(tenant_id, job_id, send_no)
 where a.tenant_id = any(array[asked.tenant_id])
   and a.job_id = asked.job_id
   and a.send_no <= asked.send_no
   and a.status = 'DEFERRED';

-- name: scan_jobs
-- What pool $1 has to do, in the order it was stored, after $2.
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
-- What pool $1 is to look at again.
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
-- Those of these jobs of pool $1 that are still to be done.
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
-- The first $4 jobs of each of these groups of pool $1, in their order, with what holds them. A job
-- that others pass by when it fails holds nobody once it has failed for good.
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
-- End jobs of pool $1 whose time is over, $2 at most, the oldest first. Not those that somebody is
-- sending: these end when that has. What others hold at this moment is left for the next time.
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
-- No pool has these: whoever looks for such jobs finds them.
-- Served by: dispatch_jobs_pkey.
update dispatch_jobs j
   set status = 'PENDING', standing = 'again', updated_at = now()
  from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
 where j.tenant_id = any(array[asked.tenant_id])
   and j.job_id = asked.job_id
   and j.status = 'QUEUED';

-- name: jobs_not_failed
-- Those of these jobs that have not failed, or failed and were seen to by a person.
-- Served by: dispatch_jobs_pkey.
select asked.tenant_id, asked.job_id
  from unnest($1::integer[], $2::text[]) as asked(tenant_id, job_id)
  left join dispatch_jobs j
         on j.tenant_id = any(array[asked.tenant_id]) and j.job_id = asked.job_id
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

-- file: dispatch_verbs.sql
-- name: requeue_jobs
-- Let jobs be sent as if they were new, each unless somebody is sending it or its pool is no more.
-- One whose time is over gets as much of it again. Returns each that is there, as it was.
-- Served by: dispatch_jobs_pkey, dispatch_pools_pkey.
with moved as (
    update dispatch_jobs j
       set status = 'PENDING',
           standing = 'again',
           attempt_count = 0,
           scheduled_for = null,
           expires_at = case when expires_at <= now() then now() + (expires_at - created_at)
                             else expires_at end,
           lease_until = null,
           owner = null,
           completed_at = null,
           last_error = null,
           ignored_at = null,
           updated_at = now()
     where tenant_id = $1
       and job_id = any($2::text[])
       and (status <> 'IN_PROGRESS' or lease_until is null or lease_until <= now())
       and exists (select from dispatch_pools p
                    where p.pool_no = j.pool_no and p.status <> 'ARCHIVED')
    returning job_id
)
select j.job_id, j.status, j.ignored_at is not null as ignored, m.job_id is not null as changed,
       j.pool_no, j.position, j.target_url, j.mode, j.message_group, j.sequence
  from dispatch_jobs j
  left join moved m using (job_id)
 where j.tenant_id = $1 and j.job_id = any($2::text[]);

-- name: settle_jobs
-- End jobs that are in one of the states $3 and that nobody ignored: with the state $4, or with
-- the one they have if that is null; $5: they are ignored. Returns each that is there, as it was.
-- Served by: dispatch_jobs_pkey.
with moved as (
    update dispatch_jobs
       set status = coalesce($4::text, status),
           standing = 'done',
           scheduled_for = null,
           completed_at = now(),
           ignored_at = case when $5 then now() end,
           updated_at = now()
     where tenant_id = $1
       and job_id = any($2::text[])
       and status = any($3::text[])
       and ignored_at is null
    returning job_id
)
select j.job_id, j.status, j.ignored_at is not null as ignored, m.job_id is not null as changed,
       j.pool_no, j.position, j.target_url, j.mode, j.message_group, j.sequence
  from dispatch_jobs j
  left join moved m using (job_id)
 where j.tenant_id = $1 and j.job_id = any($2::text[]);

-- file: dispatch_vitals.sql
-- name: backlogs
-- How many jobs of each tenant wait in each pool, among the first $1 of the pool.
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
-- How many groups of each tenant have a job in each pool that failed and must not be passed: of
-- $1 such jobs at most, among $2 that failed.
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
-- Of a tenant's jobs in each of the pools $2: how many are being delivered, may be, or wait for
-- their time. At most $3 of a pool are counted, among the first $4 of all who use it.
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
-- How the last $4 of a tenant's jobs ended that were made since the id $2, by pool; and of these
-- how those did that were made since $3.
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

-- file: dispatch_warnings.sql
-- name: raise_warning
-- Say that somebody should look at something; the same again raises the count of the open one.
-- Served by: dispatch_warnings_open.
insert into dispatch_warnings (tenant_id, category, severity, source, message)
values ($1, $2, $3, $4, $5)
    on conflict (tenant_id, category, source) where acknowledged_at is null do update
   set severity = excluded.severity,
       message = excluded.message,
       count = dispatch_warnings.count + 1,
       last_at = now()
returning warning_id;

-- name: list_warnings
-- A tenant's warnings, newest first: $2 only open ones, $3 of one severity, before $4.
-- Served by: dispatch_warnings_pkey.
select warning_id, category, severity, source, message, count,
       extract(epoch from first_at)::float8 as first_at,
       extract(epoch from last_at)::float8 as last_at,
       extract(epoch from acknowledged_at)::float8 as acknowledged_at, acknowledged_by
  from dispatch_warnings
 where tenant_id = $1
   and (not $2::boolean or acknowledged_at is null)
   and ($3::text is null or severity = $3)
   and ($4::bigint is null or warning_id < $4)
 order by warning_id desc
 limit $5;

-- name: count_recent_warnings
-- How many open warnings were raised within the last $2 seconds, of a tenant or (null) of all; not
-- those that only inform.
-- Served by: dispatch_warnings_open.
select tenant_id, count(*) as warnings
  from dispatch_warnings
 where ($1::integer is null or tenant_id = $1)
   and acknowledged_at is null
   and severity <> 'INFO'
   and last_at > now() - $2 * interval '1 second'
 group by tenant_id;

-- name: acknowledge_warning
-- Somebody has seen it.
-- Served by: dispatch_warnings_pkey.
update dispatch_warnings
   set acknowledged_at = coalesce(acknowledged_at, now()),
       acknowledged_by = coalesce(acknowledged_by, $3)
 where warning_id = $2 and tenant_id = $1
returning warning_id, category, severity, source, message, count,
          extract(epoch from first_at)::float8 as first_at,
          extract(epoch from last_at)::float8 as last_at,
          extract(epoch from acknowledged_at)::float8 as acknowledged_at, acknowledged_by;

-- name: drop_warnings
-- Forget a tenant's warnings that were raised last more than $2 seconds ago; null: all.
-- Served by: dispatch_warnings_recent.
delete from dispatch_warnings
 where tenant_id = $1
   and ($2::float8 is null or last_at < now() - $2::float8 * interval '1 second')
returning warning_id;

-- name: acknowledge_old_warnings
-- What nobody has looked at and has not come again for $1 seconds needs no looking at.
-- Served by: dispatch_warnings_open.
update dispatch_warnings
   set acknowledged_at = now(), acknowledged_by = 'muster'
 where acknowledged_at is null and last_at < now() - $1 * interval '1 second'
returning warning_id;

-- name: forget_warnings
-- Forget what somebody has seen and has not come for $1 seconds.
delete from dispatch_warnings
 where acknowledged_at is not null and last_at < now() - $1 * interval '1 second'
returning warning_id;

-- name: count_open_warnings
-- How many warnings of a tenant are open, by severity.
-- Served by: dispatch_warnings_open.
select severity, count(*) as warnings
  from dispatch_warnings
 where tenant_id = $1 and acknowledged_at is null
 group by severity;

-- file: embedded.sql
-- name: create_embedded_role
-- First start of the embedded server: what Muster may do there. The password is asked over TCP only.
create role muster login createdb in role pg_monitor password '{password}';

-- name: create_embedded_database
-- First start of the embedded server: owned by the role, so migrations need no superuser.
create database muster owner muster;

-- file: event_type_sync.sql
-- name: list_schema_prints
-- What the versions of these types are made of, each in one value: language, mime type and text.
-- Served by: event_type_versions_pkey.
select code, major, minor,
       sha256(convert_to(schema_type || ' ' || mime_type || ' ' || schema_text, 'UTF8')) as print
  from event_type_versions
 where tenant_id = $1 and code = any($2::text[]);

-- name: hold_undeclared_types
-- Types that an application declared once and that are not among $3; nobody else changes them.
-- Served by: event_types_segments.
select code, event_type_id, name, description, status, source, client_scoped, validation,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_types
 where tenant_id = $1
   and application = $2
   and source = 'CODE'
   and status = 'CURRENT'
   and code <> all($3::text[])
 order by code
 limit $4
   for update;

-- file: event_types.sql
-- name: create_event_type
-- A new type; nothing if the code is taken.
insert into event_types
       (tenant_id, code, event_type_id, application, subdomain, aggregate, event,
        name, description, source, client_scoped, validation)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    on conflict do nothing
returning code;

-- name: list_event_types
-- A page of a tenant's types by code, after $2.
-- Served by: event_types_pkey.
select code, event_type_id, name, description, status, source, client_scoped, validation,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_types
 where tenant_id = $1
   and code > $2
   and ($3::text is null or application = $3)
   and ($4::text is null or subdomain = $4)
   and ($5::text is null or aggregate = $5)
   and ($6::text is null or status = $6)
   and ($7::text is null or source = $7)
 order by code
 limit $8;

-- name: read_event_type
-- One type by its code or its id.
-- Served by: event_types_pkey, event_types_tenant_id_event_type_id_key.
select code, event_type_id, name, description, status, source, client_scoped, validation,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_types
 where tenant_id = $1 and (code = $2 or event_type_id = $2);

-- name: hold_event_type
-- The same, and nobody else changes it until the transaction ends.
-- Served by: event_types_pkey, event_types_tenant_id_event_type_id_key.
select code, event_type_id, name, description, status, source, client_scoped, validation,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_types
 where tenant_id = $1 and (code = $2 or event_type_id = $2)
   for update;

-- name: list_versions
-- The versions of these types, without their schemas.
-- Served by: event_type_versions_pkey.
select code, major, minor, status, mime_type, schema_type, digest, weight,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from event_type_versions
 where tenant_id = $1 and code = any($2::text[])
 order by code, major, minor;

-- name: read_schema_text
-- The schema of one version.
-- Served by: event_type_versions_pkey.
select schema_text
  from event_type_versions
 where tenant_id = $1 and code = $2 and major = $3 and minor = $4;

-- name: read_compiled_schema
-- What a payload is held against, of one version.
-- Served by: event_type_versions_pkey.
select schema_type, coalesce(compiled, convert_to(schema_text, 'UTF8')) as form, digest, weight
  from event_type_versions
 where tenant_id = $1 and code = $2 and major = $3 and minor = $4;

-- name: put_version
-- A new version, or another schema for one that is not final.
-- Served by: event_type_versions_pkey.
insert into event_type_versions
       (tenant_id, code, major, minor, mime_type, schema_type, schema_text,
        compiled, digest, weight)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    on conflict (tenant_id, code, major, minor) do update
   set mime_type = excluded.mime_type, schema_type = excluded.schema_type,
       schema_text = excluded.schema_text, compiled = excluded.compiled,
       digest = excluded.digest, weight = excluded.weight, updated_at = now();

-- name: move_versions
-- Versions in the order of their statuses.
-- Served by: event_type_versions_pkey.
update event_type_versions v
   set status = n.status, updated_at = now()
  from unnest($3::integer[], $4::integer[], $5::text[]) as n(major, minor, status)
 where v.tenant_id = $1 and v.code = $2 and v.major = n.major and v.minor = n.minor;

-- name: touch_event_type
-- Something about it has changed.
update event_types set updated_at = now() where tenant_id = $1 and code = $2;

-- name: change_event_type
-- Other words for a type, or another way to deal with what does not fit; null leaves as it is.
-- Served by: event_types_pkey, event_types_tenant_id_event_type_id_key.
update event_types
   set name = coalesce($3, name),
       description = case when $4 then $5 else description end,
       validation = coalesce($6, validation),
       updated_at = now()
 where tenant_id = $1 and (code = $2 or event_type_id = $2)
returning code;

-- name: archive_event_type
-- Out of use.
update event_types set status = 'ARCHIVED', updated_at = now() where tenant_id = $1 and code = $2;

-- name: drop_event_type
-- Gone, with its versions.
delete from event_types where tenant_id = $1 and code = $2;

-- name: list_applications
-- Served by: event_types_segments.
select distinct application as segment from event_types where tenant_id = $1
 order by 1 limit $2;

-- name: list_subdomains
-- Of one application, or of all.
-- Served by: event_types_segments.
select distinct subdomain as segment
  from event_types
 where tenant_id = $1 and ($2::text is null or application = $2)
 order by 1 limit $3;

-- name: list_aggregates
-- Of one application and subdomain, or of all.
-- Served by: event_types_segments.
select distinct aggregate as segment
  from event_types
 where tenant_id = $1
   and ($2::text is null or application = $2)
   and ($3::text is null or subdomain = $3)
 order by 1 limit $4;

-- file: events.sql
-- `any(array[…])`, `offset 0`: how writers keep to keys; see storage/postgres/pool.py.

-- name: flush_events
-- Events ($1) and the jobs that bring them to subscriptions ($2), which are made only if their
-- event is new. One that is known by its id or by what its sender knows it by changes nothing.
-- Gives each event that was stored, and each job with its position.
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
-- Events that are there already under one of these ids ($2) or under what their senders know them
-- by ($3), of the tenants $1; asked_id says which was asked for.
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
-- Where these jobs stand: those of an event that was stored although nobody heard so.
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
-- Of a tenant's events from $2 down to $3, newest first, the one before which $4 lie, and the next:
-- what a look of so many reads last, and what it does not read.
-- Served by: events_pkey.
select event_id
  from events
 where tenant_id = $1 and event_id < $2 and event_id >= $3
 order by event_id desc
offset $4
 limit 2;

-- name: list_events
-- A page of a tenant's events without their data, newest first, from $2 down to $3. Null filters
-- are off. Of the filters, indexes serve type and context; for the others all from $2 to $3 are
-- read, so the caller keeps these close.
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
-- Remove a batch of events with ids below $1 that no job needs any more.
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

-- file: ids.sql
-- name: draw_id_maker
-- A number for a process that makes ids. It is used again after 1023 others.
select nextval('id_makers');

-- file: inbox.sql
-- `any(array(…))`, `offset 0`: how writers keep to keys; see storage/postgres/pool.py.

-- name: list_inbox
-- A page of a tenant's inbox, newest first.
-- Served by: event_inbox_recent.
select inbox_id, execution_id, correlation_id, event_id, source, label, content_type,
       octet_length(payload) as size, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at,
       extract(epoch from expires_at)::float8 as expires_at
  from event_inbox
 where tenant_id = $1
   and ($2::text is null or verdict = $2)
   and ($3::text is null or reason = $3)
   and ($4::text is null or correlation_id = $4)
   and ($5::bigint is null or inbox_id < $5)
 order by inbox_id desc
 limit $6;

-- name: read_parked
-- One event of the inbox, with its payload.
select tenant_id, wait_key, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from event_inbox
 where tenant_id = $1 and inbox_id = $2;

-- name: delete_parked
-- Forget one event.
delete from event_inbox where tenant_id = $1 and inbox_id = $2 returning inbox_id;

-- name: near_misses
-- What came for one address and did not count.
-- Served by: event_inbox_event; and event_inbox_recent for other executions.
select tenant_id, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, ''::bytea as payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from event_inbox
 where wait_key between $1 and $2
   and tenant_id = $3
 order by received_at desc
 limit $4;

-- name: slice_of_inbox
-- How many the next $2 events after $1 are, and where they end.
-- Served by: event_inbox_pkey.
select count(*), coalesce(max(inbox_id), $1)
  from (select inbox_id from event_inbox where inbox_id > $1 order by inbox_id limit $2) as next;

-- name: stranded
-- Parked events after $1 and up to $2 whose wait exists by now: two owners of one key passed each
-- other.
-- Served by: event_inbox_pkey, execution_wait_states_pkey.
select i.inbox_id, i.tenant_id, i.execution_id, i.correlation_id, i.turn_id, i.event_id,
       i.source, i.label, i.content_type, i.payload, i.outcome, i.verdict, i.reason, i.clause,
       extract(epoch from i.received_at)::float8 as at
  from event_inbox i
 where i.inbox_id > $1
   and i.inbox_id <= $2
   and (i.verdict = 'buffered' or i.reason = 'execution_mismatch')
   and i.expires_at > now()
   and exists (select from execution_wait_states w where w.wait_key = i.wait_key offset 0)
 order by i.inbox_id
 limit $3;

-- name: settle_stranded
-- A stranded event that was taken by its correlation leaves the inbox.
delete from event_inbox where inbox_id = any($1::bigint[]);

-- name: expire_parked
-- Forget a batch of parked events whose time is over.
-- Served by: event_inbox_expiry.
delete from event_inbox
 where ctid = any(array(
       select ctid from event_inbox where expires_at <= now() order by expires_at limit $1))
   and expires_at <= now()
returning inbox_id;

-- name: inbox_census
-- How many parked events there are by verdict and reason.
select verdict, reason, count(*) as events from event_inbox group by verdict, reason;

-- file: migrations.sql
-- name: lock_migrations
-- Keeps two migrating processes apart until the connection closes.
select pg_advisory_lock($1);

-- name: create_migrations
create table if not exists schema_migrations (
    name       text primary key,
    applied_at timestamptz not null default now()
);

-- name: applied_migrations
select name from schema_migrations;

-- name: record_migration
insert into schema_migrations (name) values ($1);

-- file: outbox.sql
-- name: claim_relay
-- Only one relay publishes at a time: order per key would be nobody's otherwise. Held as long as
-- the connection lives.
select pg_try_advisory_lock($1);

-- name: next_outgoing
-- What is to be published next, in the order it was written, but for topics ($3) that take nothing.
-- Served by: outbox_pkey.
select outbox_id, tenant_id, wait_key, topic, record_key, event_type,
       extract(epoch from created_at)::float8 as created_at
  from outbox
 where outbox_id > $1
   and topic <> all($3::text[])
 order by outbox_id
 limit $2;

-- name: confirm_outgoing
-- The broker has these.
delete from outbox where outbox_id = any($1::bigint[]);

-- name: outbox_backlog
-- How much waits to be published, and for how long.
select count(*) as rows,
       coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as oldest
  from outbox;

-- file: pool_moves.sql
-- name: count_ordered_jobs
-- How many jobs of a subscription stand in groups of pool $3, open or failed; up to $4.
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
-- Let a subscription's jobs that stand in groups of pool $3 stand in pool $4, each in its place. One
-- that is being sent goes along: those behind it wait for it there, and whoever sends it ends it as
-- before. Whoever looks for jobs that no pool has finds them.
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
-- What people hold back of a subscription with code $4 in pool $2, they hold back in pool $3, too.
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
-- Once nothing of it is left there: nobody posted jobs of his own under such a name.
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

-- file: resources.sql
-- `any(array[…])`, `offset 0`: how writers keep to keys; see storage/postgres/pool.py.

-- name: put_resource
-- Register a resource or change it; true if it is new.
insert into resources (tenant_id, name, definition)
values ($1, $2, $3)
    on conflict (tenant_id, name) do update
   set definition = excluded.definition, updated_at = now()
returning xmax = 0;

-- name: find_resources
-- The resources of these names.
-- Served by: resources_pkey.
select name, definition
  from resources
 where tenant_id = $1 and name = any($2::text[]);

-- name: list_resources
-- A page of a tenant's resources by name, after $2.
-- Served by: resources_pkey.
select name, definition,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from resources
 where tenant_id = $1 and name > $2
 order by name
 limit $3;

-- name: read_resource
-- One resource.
-- Served by: resources_pkey.
select name, definition,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from resources
 where tenant_id = $1 and name = $2;

-- name: drop_resource
-- Remove a resource.
delete from resources where tenant_id = $1 and name = $2 returning name;

-- name: open_gathers
-- Gathers opened more than $1 seconds ago that still wait. Not what they asked for, which may be
-- large, and is needed of few. Waits with the same strategy may last for months; no gather is due
-- later than in $3 seconds.
-- Served by: execution_wait_states_settling, wait_state_events_pkey.
select w.tenant_id, w.execution_id, w.correlation_id, w.marks, s.spec,
       extract(epoch from w.expires_at)::float8 as expires_at
  from execution_wait_states w
  join wait_specs s on s.tenant_id = any(array[w.tenant_id]) and s.spec_id = w.spec_id
 where w.aggregation_strategy = 'settled'
   and w.status = 'waiting'
   and w.due_at > now()
   and w.due_at <= now() + $3 * interval '1 second'
   and w.created_at < now() - $1 * interval '1 second'
   and exists (select from wait_state_events l
                where l.wait_key = w.wait_key and l.seq = 1 and l.kind = 'asked'
               offset 0)
 order by w.due_at
 limit $2;

-- file: schemas.sql
-- name: create_schema
-- A schema by itself.
insert into schemas
       (tenant_id, schema_id, name, description, mime_type, schema_type, content,
        event_type_id, version)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: replace_schema
-- Another content and other words.
-- Served by: schemas_pkey.
update schemas
   set name = $3, description = $4, mime_type = $5, schema_type = $6, content = $7,
       event_type_id = $8, version = $9, updated_at = now()
 where tenant_id = $1 and schema_id = $2
returning schema_id;

-- name: list_schemas
-- A page of a tenant's schemas, without their contents, in the order they were made, after $2.
-- Served by: schemas_pkey, schemas_of_type.
select schema_id, name, description, mime_type, schema_type, event_type_id, version,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from schemas
 where tenant_id = $1
   and schema_id > $2
   and ($3::text is null or schema_type = $3)
   and ($4::text is null or event_type_id = $4)
 order by schema_id
 limit $5;

-- name: read_schema
-- One schema.
-- Served by: schemas_pkey.
select schema_id, name, description, mime_type, schema_type, event_type_id, version, content,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from schemas
 where tenant_id = $1 and schema_id = $2;

-- name: drop_schema
-- Remove a schema; versions that were made of it stay.
delete from schemas where tenant_id = $1 and schema_id = $2 returning schema_id;

-- file: subscriptions.sql
-- `any(array[…])`, `offset 0`: how writers keep to keys; see storage/postgres/pool.py.

-- name: read_subscriptions
-- These subscriptions in this order, each with all its bindings.
-- Served by: subscriptions_pkey, subscription_bindings_pkey, event_types_pkey.
select s.tenant_id, s.subscription_id, s.code, s.name, s.description, s.version, s.target,
       s.queue, s.pool_no, p.pool_id, p.code as pool_code, s.mode, s.timeout_seconds,
       s.max_age_seconds, s.delay_seconds, s.max_retries, s.sequence, s.data_only, s.filter,
       s.headers, s.auth, s.signature, s.custom_config, s.source, s.application, s.status,
       s.status_reason,
       extract(epoch from s.failing_since)::float8 as failing_since,
       extract(epoch from s.created_at)::float8 as created_at,
       extract(epoch from s.updated_at)::float8 as updated_at,
       array(select b.pattern
               from subscription_bindings b
              where b.tenant_id = s.tenant_id and b.subscription_id = s.subscription_id
              order by b.pattern) as patterns,
       array(select b.spec_version
               from subscription_bindings b
              where b.tenant_id = s.tenant_id and b.subscription_id = s.subscription_id
              order by b.pattern) as spec_versions,
       array(select (select t.event_type_id
                       from event_types t
                      where t.tenant_id = b.tenant_id and t.code = b.pattern)
               from subscription_bindings b
              where b.tenant_id = s.tenant_id and b.subscription_id = s.subscription_id
              order by b.pattern) as event_type_ids
  from unnest($1::integer[], $2::text[]) with ordinality as k(tenant_id, subscription_id, place)
  join subscriptions s
    on s.tenant_id = any(array[k.tenant_id]) and s.subscription_id = k.subscription_id
  join dispatch_pools p on p.pool_no = any(array[s.pool_no])
 order by k.place;

-- name: match_subscriptions
-- Which subscriptions, of the tenant and of the anchor, have a binding of one of these patterns.
-- Served by: subscription_bindings_pattern, subscriptions_pkey.
select distinct b.tenant_id, b.subscription_id
  from subscription_bindings b
 where b.pattern = any($2::text[])
   and b.tenant_id in ($1, 0)
   and exists (select from subscriptions s
                where s.tenant_id = b.tenant_id
                  and s.subscription_id = b.subscription_id
                  and s.status = 'ACTIVE'
               offset 0)
 order by b.tenant_id, b.subscription_id;

-- name: find_subscription
-- The id of a subscription, by its code or its id.
-- Served by: subscriptions_tenant_id_code_key, subscriptions_pkey.
select subscription_id
  from subscriptions
 where tenant_id = $1 and (code = $2 or subscription_id = $2);

-- name: hold_subscription
-- The same, and nobody else changes it until the transaction ends.
-- Served by: subscriptions_tenant_id_code_key, subscriptions_pkey.
select subscription_id
  from subscriptions
 where tenant_id = $1 and (code = $2 or subscription_id = $2)
   for update;

-- name: list_subscriptions
-- A page of a tenant's subscriptions by code, after $2. $6: only those with such a binding.
-- Served by: subscriptions_tenant_id_code_key, subscription_bindings_pkey.
select s.subscription_id
  from subscriptions s
 where s.tenant_id = $1
   and s.code > $2
   and ($3::text is null or s.status = $3)
   and ($4::text is null or s.source = $4)
   and ($5::integer[] is null or s.pool_no = any($5))
   and ($6::text[] is null
        or exists (select from subscription_bindings b
                    where b.tenant_id = s.tenant_id
                      and b.subscription_id = s.subscription_id
                      and b.pattern = any($6)))
 order by s.code
 limit $7;

-- name: count_subscriptions
-- How many such a listing has in all.
-- Served by: subscriptions_tenant_id_code_key, subscription_bindings_pkey.
select count(*)
  from subscriptions s
 where s.tenant_id = $1
   and ($2::text is null or s.status = $2)
   and ($3::text is null or s.source = $3)
   and ($4::integer[] is null or s.pool_no = any($4))
   and ($5::text[] is null
        or exists (select from subscription_bindings b
                    where b.tenant_id = s.tenant_id
                      and b.subscription_id = s.subscription_id
                      and b.pattern = any($5)));

-- name: create_subscription
-- A new subscription; nothing if the code is taken.
insert into subscriptions
       (tenant_id, subscription_id, code, name, description, version, target, queue, pool_no,
        mode, timeout_seconds, max_age_seconds, delay_seconds, max_retries, sequence, data_only,
        filter, headers, auth, signature, custom_config, source, application, status,
        status_reason, failing_since)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
        $20, $21, $22, $23, $24, $25, to_timestamp($26))
    on conflict do nothing
returning subscription_id;

-- name: save_subscription
-- Other values for a subscription that the caller holds; the caller sees to it that its code stays.
-- Served by: subscriptions_pkey.
update subscriptions
   set code = $3, name = $4, description = $5, version = $6, target = $7, queue = $8,
       pool_no = $9, mode = $10, timeout_seconds = $11, max_age_seconds = $12,
       delay_seconds = $13, max_retries = $14, sequence = $15, data_only = $16, filter = $17,
       headers = $18, auth = $19, signature = $20, custom_config = $21, source = $22,
       application = $23, status = $24, status_reason = $25, failing_since = to_timestamp($26),
       updated_at = now()
 where tenant_id = $1 and subscription_id = $2;

-- name: drop_bindings
-- Served by: subscription_bindings_pkey.
delete from subscription_bindings where tenant_id = $1 and subscription_id = $2;

-- name: add_bindings
-- What a subscription takes.
insert into subscription_bindings (tenant_id, subscription_id, pattern, spec_version)
select $1, $2, n.pattern, n.spec_version
  from unnest($3::text[], $4::text[]) as n(pattern, spec_version);

-- name: drop_subscription
-- Gone, with its bindings.
-- Served by: subscriptions_pkey.
delete from subscriptions where tenant_id = $1 and subscription_id = $2;

-- name: put_aside_failed
-- What failed of a subscription that goes holds nobody any more.
-- Served by: dispatch_jobs_error.
update dispatch_jobs
   set standing = 'done', ignored_at = now(), completed_at = now(), updated_at = now()
 where tenant_id = $1 and standing = 'error' and subscription_id = $2;

-- name: read_profiles
-- What deliveries to these subscriptions are signed and sent with.
-- Served by: subscriptions_pkey, webhook_secrets_pkey.
select s.tenant_id, s.subscription_id, s.version, s.target, s.signature, s.headers, s.auth,
       array(select w.secret
               from webhook_secrets w
              where w.tenant_id = s.tenant_id
                and w.subscription_id = s.subscription_id
                and (w.expires_at is null or w.expires_at > now())
              order by w.secret_no desc) as secrets
  from unnest($1::integer[], $2::text[]) as k(tenant_id, subscription_id)
  join subscriptions s
    on s.tenant_id = any(array[k.tenant_id]) and s.subscription_id = k.subscription_id;

-- name: mark_failing
-- Since when these have failed without any success: from now on, if not before. In seconds ago.
-- Served by: subscriptions_pkey.
with asked as (
    select tenant_id, subscription_id
      from unnest($1::integer[], $2::text[]) as k(tenant_id, subscription_id)
),
begun as (
    update subscriptions s
       set failing_since = now()
      from asked
     where s.tenant_id = any(array[asked.tenant_id])
       and s.subscription_id = asked.subscription_id
       and s.failing_since is null
)
select s.tenant_id, s.subscription_id,
       coalesce(extract(epoch from now() - s.failing_since), 0)::float8 as seconds
  from asked
  join subscriptions s
    on s.tenant_id = any(array[asked.tenant_id]) and s.subscription_id = asked.subscription_id;

-- name: mark_well
-- These have taken a delivery.
-- Served by: subscriptions_pkey.
update subscriptions s
   set failing_since = null
  from unnest($1::integer[], $2::text[]) as k(tenant_id, subscription_id)
 where s.tenant_id = any(array[k.tenant_id])
   and s.subscription_id = k.subscription_id
   and s.failing_since is not null;

-- name: disable_subscription
-- Pause a subscription that is active and fails, of version $4 if that is given. Nothing: it is not,
-- or no longer.
-- Served by: subscriptions_pkey.
update subscriptions
   set status = 'PAUSED', status_reason = $3, version = version + 1, updated_at = now()
 where tenant_id = $1
   and subscription_id = $2
   and status = 'ACTIVE'
   and failing_since is not null
   and ($4::integer is null or version = $4)
returning subscription_id;

-- name: raise_subscription_version
-- Whoever remembers how to deliver to it looks again.
-- Served by: subscriptions_pkey.
update subscriptions
   set version = version + 1, updated_at = now()
 where tenant_id = $1 and subscription_id = $2;

-- name: application_subscriptions
-- What an application declared.
-- Served by: subscriptions_tenant_id_code_key.
select code from subscriptions where tenant_id = $1 and application = $2 order by code;

-- file: topics.sql
-- name: name_topics
-- Waits of a tenant name these topics until $3.
insert into wait_topics (tenant_id, topic, last_deadline)
select $1, t.topic, to_timestamp($3)
  from unnest($2::text[]) as t(topic)
    on conflict (topic, tenant_id) do update
   set last_deadline = greatest(wait_topics.last_deadline, excluded.last_deadline);

-- name: named_topics
-- The topics that waits name, with the tenants that do.
select t.topic, n.slug
  from wait_topics t
  join tenants n using (tenant_id)
 where t.last_deadline > now() - interval '1 day'
 order by t.topic, n.slug;

-- name: topics_named_by
-- The topics that waits of one tenant name.
select topic
  from wait_topics
 where tenant_id = $1 and last_deadline > now() - interval '1 day'
 order by topic
 limit $2;

-- name: forget_topics
-- Topics that no wait has named for $1 seconds.
delete from wait_topics where last_deadline < now() - $1 * interval '1 second' - interval '1 day';

-- file: waits.sql
-- `any(array[…])`: how writers keep to keys; see storage/postgres/pool.py.

-- name: load_waits
-- The rows to rebuild these correlations from.
-- Served by: execution_wait_states_pkey.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at
  from execution_wait_states w
  join wait_specs s on s.tenant_id = any(array[w.tenant_id]) and s.spec_id = w.spec_id
 where w.wait_key = any($1::bytea[]);

-- name: load_early
-- Events that came before these correlations were registered.
-- Served by: event_inbox_event.
select wait_key, tenant_id, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from event_inbox
 where wait_key = any($1::bytea[])
   and (verdict = 'buffered' or reason = 'execution_mismatch')
   and expires_at > now();

-- name: find_elsewhere
-- Executions that wait under the same correlation id as an unknown key: $1 key, $2 and $3 the
-- range of keys that share its first half.
-- Served by: execution_wait_states_pkey.
select asked.wait_key, other.execution_id
  from unnest($1::bytea[], $2::bytea[], $3::bytea[]) as asked(wait_key, lower, upper)
 cross join lateral (
       select w.execution_id
         from execution_wait_states w
        where w.wait_key between asked.lower and asked.upper
          and w.status = 'waiting'
        order by w.wait_key
        limit 1) as other;

-- name: find_by_node
-- The correlation that holds a node of an execution.
-- Served by: execution_wait_states_node.
select correlation_id
  from execution_wait_states
 where tenant_id = $1 and execution_id = $2 and node_id = $3;

-- name: flush
-- One flush of a shard: specs not yet known ($1), new waits ($2), changed waits ($3), log lines
-- ($4), events that leave the inbox ($5) and events to publish ($6), written by $7.
-- A changed row must still have the version it was read at; what hangs on a row that lost is
-- left out as well. Returns the keys that were kept; the others must be read and decided again.
-- `(… in …) is true` keeps the planner from a join, which it would do by nested loops: it cannot
-- know how many rows a flush has, and guesses ten.
with specs as (
    insert into wait_specs (tenant_id, spec_id, spec, last_deadline)
    select s.tenant_id, s.spec_id, s.spec, to_timestamp(s.last_deadline)
      from unnest($1::flushed_spec[]) as s
        on conflict (tenant_id, spec_id) do update
       set last_deadline = greatest(wait_specs.last_deadline, excluded.last_deadline)
), opened as (
    insert into execution_wait_states
           (wait_key, tenant_id, execution_id, correlation_id, node_id, aggregation_strategy,
            status, version, log_length, spec_id, marks, ending, registered_by,
            created_at, updated_at, expires_at, due_at, resumed_at, resumed_by)
    select n.wait_key, n.tenant_id, n.execution_id, n.correlation_id, n.node_id, n.strategy,
           n.status, n.version, n.log_length, n.spec_id, n.marks, n.ending, n.registered_by,
           to_timestamp(n.opened_at), now(), to_timestamp(n.expires_at), to_timestamp(n.due_at),
           to_timestamp(n.resumed_at), case when n.resumed_at is not null then $7::text end
      from unnest($2::opened_wait[]) as n
        on conflict do nothing
    returning wait_key
), saved as (
    update execution_wait_states w
       set version = c.version,
           log_length = c.log_length,
           status = c.status,
           marks = c.marks,
           ending = c.ending,
           updated_at = now(),
           due_at = case when c.status = 'waiting' then to_timestamp(c.due_at) else w.due_at end,
           resumed_at = to_timestamp(c.resumed_at),
           resumed_by = case when c.resumed_at is null then null
                             else coalesce(w.resumed_by, $7::text) end
      from unnest($3::saved_wait[]) as c
     where w.wait_key = any(array[c.wait_key])
       and w.version = c.seen
    returning w.wait_key
), kept as (
    select wait_key from opened
    union all
    select wait_key from saved
), logged as (
    insert into wait_state_events
           (wait_key, tenant_id, seq, kind, event, event_id, source, label, content_type,
            payload, at)
    select l.wait_key, l.tenant_id, l.seq, l.kind, l.event, l.event_id, l.source, l.label,
           l.content_type, l.payload, to_timestamp(l.at)
      from unnest($4::log_line[]) as l
     where (l.wait_key in (select wait_key from kept)) is true
       -- An event that counts can come once only; one that does not may be sent again and again.
       and (l.kind not in ('late', 'duplicate')
            or not exists (select from wait_state_events known
                            where known.wait_key = any(array[l.wait_key])
                              and known.event_id = l.event_id))
), unparked as (
    delete from event_inbox i
     using unnest($5::taken_event[]) as u
     where i.wait_key = any(array[u.wait_key])
       and i.event_id = u.event_id
       and (u.wait_key in (select wait_key from kept)) is true
), published as (
    insert into outbox (wait_key, tenant_id, topic, record_key, event_type)
    select o.wait_key, o.tenant_id, o.topic, o.record_key, o.event_type
      from unnest($6::outgoing_event[]) as o
     where (o.wait_key in (select wait_key from kept)) is true
)
select wait_key from kept;

-- name: park
-- Keep events that found no place. One that waits to be matched may get a new verdict; any other
-- repetition changes nothing.
insert into event_inbox
       (wait_key, event_id, tenant_id, execution_id, correlation_id, turn_id, source, label,
        content_type, payload, outcome, verdict, reason, clause, received_at, expires_at)
select p.wait_key, p.event_id, p.tenant_id, p.execution_id, p.correlation_id, p.turn_id,
       p.source, p.label, p.content_type, p.payload, p.outcome, p.verdict, p.reason, p.clause,
       to_timestamp(p.at), to_timestamp(p.at) + $2 * interval '1 second'
  from unnest($1::parked_event[]) as p
    on conflict (wait_key, event_id, tenant_id) do update
   set verdict = excluded.verdict, reason = excluded.reason, clause = excluded.clause
 where event_inbox.verdict = 'buffered' or event_inbox.reason = 'execution_mismatch';

-- name: list_waits
-- A page of a tenant's waits, newest first. Null filters are off; $6, $7 continue after a row.
-- Served by: execution_wait_states_recent.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at
  from execution_wait_states w
  join wait_specs s using (tenant_id, spec_id)
 where w.tenant_id = $1
   and ($2::text is null or w.status = $2)
   and ($3::text is null or w.execution_id = $3)
   and ($4::text is null or w.aggregation_strategy = $4)
   and ($5::float8 is null or w.created_at <= now() - $5 * interval '1 second')
   and ($6::float8 is null or (w.created_at, w.wait_key) < (to_timestamp($6), $7::bytea))
 order by w.created_at desc, w.wait_key desc
 limit $8;

-- name: read_wait
-- One wait with what its row alone knows.
-- Served by: execution_wait_states_pkey.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at,
       extract(epoch from w.resumed_at)::float8 as resumed_at, w.resumed_by
  from execution_wait_states w
  join wait_specs s using (tenant_id, spec_id)
 where w.wait_key = $1 and w.tenant_id = $2;

-- name: read_log
-- A correlation's log after line $2: as many lines as fit into $3 bytes of data, at least one.
-- Served by: wait_state_events_pkey.
select seq, kind, event, event_id, source, label, content_type, payload, at
  from (select seq, kind, event, event_id, source, label, content_type, payload,
               extract(epoch from at)::float8 as at,
               sum(octet_length(payload)) over (order by seq) - octet_length(payload) as before
          from wait_state_events
         where wait_key = $1 and seq > $2) as lines
 where before < $3
 order by seq;

-- name: read_lines
-- These lines of a correlation's log.
-- Served by: wait_state_events_pkey.
select seq, kind, event, event_id, source, label, content_type, payload,
       extract(epoch from at)::float8 as at
  from wait_state_events
 where wait_key = $1 and seq = any($2::int[])
 order by seq;

-- name: read_lines_of_all
-- Lines of many logs, by wait ($1) and number ($2).
-- Served by: wait_state_events_pkey.
select l.wait_key, l.seq, l.kind, l.event, l.event_id, l.source, l.label, l.content_type,
       l.payload, extract(epoch from l.at)::float8 as at
  from unnest($1::bytea[], $2::int[]) as asked(wait_key, seq)
  join wait_state_events l on l.wait_key = any(array[asked.wait_key]) and l.seq = asked.seq;

-- name: forget_ended
-- Remove a batch of waits that ended before $1 seconds ago, with their logs; but for those whose end
-- is still to be published, which is told from their rows.
-- Served by: execution_wait_states_due. `not in` reads the outbox once and hashes it; a join would be
-- by nested loops. A row of the outbox is as old as the end that it tells of.
with old as (
    select w.wait_key
      from execution_wait_states w
     where w.due_at < now() - $1 * interval '1 second'
       and w.updated_at < now() - $1 * interval '1 second'
       and w.status <> 'waiting'
       and w.wait_key not in (select o.wait_key
                                from outbox o
                               where o.created_at < now() - $1 * interval '1 second')
     limit $2
), logs as (
    delete from wait_state_events l using old where l.wait_key = any(array[old.wait_key])
)
delete from execution_wait_states w using old where w.wait_key = any(array[old.wait_key])
returning w.wait_key;

-- name: forget_specs
-- Remove specs that no wait can have any more: their last deadline is past retention by a day, and
-- no row as old as that is left.
-- Served by: wait_specs_deadline, execution_wait_states_due.
delete from wait_specs
 where last_deadline < now() - $1 * interval '1 second' - interval '1 day'
   and not exists (select from execution_wait_states
                    where due_at < now() - $1 * interval '1 second');

-- name: census
-- How many waits there are by status, over what is still kept.
select status, count(*) as waits
  from execution_wait_states
 group by status;

-- file: webhook_secrets.sql
-- name: live_webhook_secrets
-- What deliveries are signed with, newest first.
-- Served by: webhook_secrets_pkey.
select secret,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from expires_at)::float8 as expires_at
  from webhook_secrets
 where tenant_id = $1
   and subscription_id = $2
   and (expires_at is null or expires_at > now())
 order by secret_no desc;

-- name: add_webhook_secret
-- One more, which becomes the first.
insert into webhook_secrets (tenant_id, subscription_id, secret) values ($1, $2, $3);

-- name: end_webhook_secrets
-- Those there are last for so many seconds more, unless they end before that.
-- Served by: webhook_secrets_pkey.
update webhook_secrets
   set expires_at = least(expires_at, now() + $3 * interval '1 second')
 where tenant_id = $1 and subscription_id = $2;

-- name: trim_webhook_secrets
-- Forget what is over, and all but the newest $3.
-- Served by: webhook_secrets_pkey.
delete from webhook_secrets
 where tenant_id = $1
   and subscription_id = $2
   and (expires_at <= now()
        or secret_no not in (select w.secret_no
                               from webhook_secrets w
                              where w.tenant_id = $1 and w.subscription_id = $2
                              order by w.secret_no desc
                              limit $3));

-- name: drop_webhook_secrets
-- Served by: webhook_secrets_pkey.
delete from webhook_secrets where tenant_id = $1 and subscription_id = $2;
