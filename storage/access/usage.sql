-- name: add_usage
-- Add counts: tenants $1, kinds $2, rows $3, bytes $4. The fixed order prevents deadlocks.
-- Served by: tenant_usage_pkey.
insert into tenant_usage (tenant_id, day, kind, row_count, byte_count)
select u.tenant_id, current_date, u.kind, u.row_count, u.byte_count
  from unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[])
       as u(tenant_id, kind, row_count, byte_count)
 order by u.tenant_id, u.kind
    on conflict (tenant_id, day, kind) do update
   set row_count = tenant_usage.row_count + excluded.row_count,
       byte_count = tenant_usage.byte_count + excluded.byte_count;

-- name: usage_today
-- What tenants ($1) have stored today.
-- Served by: tenant_usage_pkey.
select tenant_id, sum(row_count)::bigint as row_count, sum(byte_count)::bigint as byte_count
  from tenant_usage
 where tenant_id = any($1::int[]) and day = current_date
 group by tenant_id;

-- name: usage_before_today
-- What tenants ($1) stored before today and within retention: of each kind ($2) so many days ($3).
-- Served by: tenant_usage_pkey.
select tenant_id, sum(row_count)::bigint as row_count, sum(byte_count)::bigint as byte_count
  from tenant_usage
 where tenant_id = any($1::int[])
   and day < current_date
   and day >= current_date - ($3::int[])[array_position($2::text[], kind)]
 group by tenant_id;

-- name: today
-- The current day of the counters, and the seconds until it ends.
select current_date as day, extract(epoch from (current_date + 1) - now())::float8 as seconds_left;

-- name: own_quotas
-- The quotas that were set for tenants ($1).
-- Served by: tenants_pkey.
select tenant_id, quotas from tenants where tenant_id = any($1::int[]) and quotas <> '{}';

-- name: set_quota
-- Set a quota ($2, $3) for the tenant of slug $1.
-- Served by: tenants_slug_key.
update tenants
   set quotas = quotas || jsonb_build_object($2::text, $3::bigint)
 where slug = $1
returning tenant_id;

-- name: clear_quota
-- Restore the default quota $2 of the tenant of slug $1.
-- Served by: tenants_slug_key.
update tenants set quotas = quotas - $2::text where slug = $1 returning tenant_id;

-- name: forget_usage
-- Delete the counters of days past retention.
-- Served by: tenant_usage_day.
delete from tenant_usage where day < current_date - $1::int;

-- name: quota_keys
-- How many keys a tenant has, up to $2. A revoked key counts for a day, to bound how many keys can
-- be created and revoked.
-- Served by: api_keys_tenant.
select count(*)
  from (select from api_keys
         where tenant_id = $1
           and (expires_at is null or expires_at > now())
           and (revoked_at is null or revoked_at > now() - interval '1 day')
         limit $2) as found;

-- name: quota_resources
-- How many resources a tenant has, up to $2.
-- Served by: resources_pkey.
select count(*) from (select from resources where tenant_id = $1 limit $2) as found;

-- name: quota_eventTypes
-- How many event types a tenant has, up to $2.
-- Served by: event_types_pkey.
select count(*) from (select from event_types where tenant_id = $1 limit $2) as found;

-- name: quota_schemas
-- How many schemas and versions of event types a tenant has, up to $2.
-- Served by: schemas_pkey, event_type_versions_pkey.
select count(*)
  from (select from schemas where tenant_id = $1
         union all
        select from event_type_versions where tenant_id = $1
         limit $2) as found;

-- name: quota_subscriptions
-- How many subscriptions a tenant has, up to $2.
-- Served by: subscriptions_pkey.
select count(*) from (select from subscriptions where tenant_id = $1 limit $2) as found;

-- name: quota_topics
-- How many topics the waits of a tenant name, up to $2.
-- Served by: wait_topics_tenant.
select count(*) from (select from wait_topics where tenant_id = $1 limit $2) as found;

-- name: quota_collections
-- How many collections a tenant has, up to $2.
-- Served by: collections_tenant_id_name_key.
select count(*) from (select from collections where tenant_id = $1 limit $2) as found;

-- name: known_eventTypes
-- How many of these codes ($2) are event types of a tenant.
-- Served by: event_types_pkey.
select count(*) from event_types where tenant_id = $1 and code = any($2::text[]);

-- name: known_subscriptions
-- How many of these codes ($2) are subscriptions of a tenant.
-- Served by: subscriptions_tenant_id_code_key.
select count(*) from subscriptions where tenant_id = $1 and code = any($2::text[]);

-- name: known_resources
-- How many of these names ($2) are resources of a tenant.
-- Served by: resources_pkey.
select count(*) from resources where tenant_id = $1 and name = any($2::text[]);

-- name: known_topics
-- How many of these topics ($2) the waits of a tenant name already.
-- Served by: wait_topics_pkey.
select count(*) from wait_topics where tenant_id = $1 and topic = any($2::text[]);
