-- `any(array[…])`, `offset 0`: force look-ups by key; see storage/postgres/pool.py.

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
-- Subscriptions of the tenant and of the anchor that have a binding with one of these patterns.
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
-- The id of a subscription by its code or id, locked until the transaction ends.
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
-- Count the subscriptions that match the filters of the listing.
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
values (:tenant, :subscription_id, :code, :name, :description, :version, :target, :queue, :pool_no,
        :mode, :timeout_seconds, :max_age_seconds, :delay_seconds, :max_retries, :sequence,
        :data_only, :filter, :headers, :auth, :signature, :custom_config, :source, :application,
        :status, :status_reason, to_timestamp(:failing_since))
    on conflict do nothing
returning subscription_id;

-- name: save_subscription
-- Store new values of a locked subscription; its code must stay the same.
-- Served by: subscriptions_pkey.
update subscriptions
   set code = :code, name = :name, description = :description, version = :version,
       target = :target, queue = :queue, pool_no = :pool_no, mode = :mode,
       timeout_seconds = :timeout_seconds, max_age_seconds = :max_age_seconds,
       delay_seconds = :delay_seconds, max_retries = :max_retries, sequence = :sequence,
       data_only = :data_only, filter = :filter, headers = :headers, auth = :auth,
       signature = :signature, custom_config = :custom_config, source = :source,
       application = :application, status = :status, status_reason = :status_reason,
       failing_since = to_timestamp(:failing_since), updated_at = now()
 where tenant_id = :tenant and subscription_id = :subscription_id;

-- name: drop_bindings
-- Served by: subscription_bindings_pkey.
delete from subscription_bindings where tenant_id = $1 and subscription_id = $2;

-- name: add_bindings
-- Store the bindings of a subscription.
insert into subscription_bindings (tenant_id, subscription_id, pattern, spec_version)
select $1, $2, n.pattern, n.spec_version
  from unnest($3::text[], $4::text[]) as n(pattern, spec_version);

-- name: drop_subscription
-- Delete a subscription with its bindings.
-- Served by: subscriptions_pkey.
delete from subscriptions where tenant_id = $1 and subscription_id = $2;

-- name: put_aside_failed
-- Ignore the failed jobs of a subscription that is deleted, so that they block no group.
-- Served by: dispatch_jobs_error.
update dispatch_jobs
   set standing = 'done', ignored_at = now(), completed_at = now(), updated_at = now()
 where tenant_id = $1 and standing = 'error' and subscription_id = $2;

-- name: read_profiles
-- The secrets and options of deliveries to these subscriptions.
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
-- Mark subscriptions as failing; return for how many seconds each has had no success.
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
-- Mark subscriptions as working: a delivery succeeded.
-- Served by: subscriptions_pkey.
update subscriptions s
   set failing_since = null
  from unnest($1::integer[], $2::text[]) as k(tenant_id, subscription_id)
 where s.tenant_id = any(array[k.tenant_id])
   and s.subscription_id = k.subscription_id
   and s.failing_since is not null;

-- name: disable_subscription
-- Pause an active subscription that fails, if its version is $4 or $4 is null. Returns nothing if
-- it is not active or no longer fails.
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
-- Increment the version, so that processes read the delivery profile again.
-- Served by: subscriptions_pkey.
update subscriptions
   set version = version + 1, updated_at = now()
 where tenant_id = $1 and subscription_id = $2;

-- name: application_subscriptions
-- The subscriptions that an application declared.
-- Served by: subscriptions_tenant_id_code_key.
select code from subscriptions where tenant_id = $1 and application = $2 order by code;

-- name: hold_open_pool
-- A pool that is not archived, and is not until the transaction ends; nothing if it is.
-- Served by: dispatch_pools_pkey.
select code, pool_id
  from dispatch_pools
 where pool_no = $1 and status <> 'ARCHIVED'
   for key share;
