-- `any(array[…])`: force look-ups by key; see storage/postgres/pool.py.

-- name: try_lock_rotation
-- Keeps two rotations apart, until it is unlocked or the connection closes.
select pg_try_advisory_lock($1);

-- name: unlock_rotation
select pg_advisory_unlock($1);

-- name: list_encryption_keys
select key_id, test_value, completed_at is not null as completed
  from encryption_keys
 order by created_at, key_id;

-- name: add_encryption_key
insert into encryption_keys (key_id, test_value) values ($1, $2) on conflict do nothing;

-- name: complete_encryption_key
-- Served by: encryption_keys_pkey.
update encryption_keys set completed_at = now() where key_id = $1;

-- name: drop_encryption_keys
-- Delete keys that nothing is encrypted under any more.
-- Served by: encryption_keys_pkey.
delete from encryption_keys where key_id = any($1::text[]);

-- name: webhook_secrets_after
-- Served by: webhook_secrets_pkey.
select tenant_id, subscription_id, secret_no, secret
  from webhook_secrets
 where (tenant_id, subscription_id, secret_no) > ($1, $2, $3)
 order by tenant_id, subscription_id, secret_no
 limit $4;

-- name: replace_webhook_secrets
-- Store re-encrypted secrets, unless a row has changed since it was read or is locked.
-- Served by: webhook_secrets_pkey.
with free as (
    select w.tenant_id, w.subscription_id, w.secret_no, n.renewed
      from unnest($1::integer[], $2::text[], $3::integer[], $4::bytea[], $5::bytea[])
           as n(tenant_id, subscription_id, secret_no, secret, renewed)
      join webhook_secrets w
        on w.tenant_id = any(array[n.tenant_id])
       and w.subscription_id = n.subscription_id
       and w.secret_no = n.secret_no
     where w.secret = n.secret
       for update of w skip locked
)
update webhook_secrets w
   set secret = free.renewed
  from free
 where w.tenant_id = any(array[free.tenant_id])
   and w.subscription_id = free.subscription_id
   and w.secret_no = free.secret_no
returning 1;

-- name: signing_secrets_after
-- Served by: signing_secrets_pkey.
select secret_id, purpose, secret
  from signing_secrets
 where secret_id > $1
 order by secret_id
 limit $2;

-- name: replace_signing_secrets
-- Served by: signing_secrets_pkey.
with free as (
    select s.secret_id, n.renewed
      from unnest($1::integer[], $2::bytea[], $3::bytea[]) as n(secret_id, secret, renewed)
      join signing_secrets s on s.secret_id = any(array[n.secret_id])
     where s.secret = n.secret
       for update of s skip locked
)
update signing_secrets s
   set secret = free.renewed
  from free
 where s.secret_id = any(array[free.secret_id])
returning 1;

-- name: subscription_secrets_after
-- Served by: subscriptions_pkey.
select tenant_id, subscription_id, headers, auth
  from subscriptions
 where (tenant_id, subscription_id) > ($1, $2)
 order by tenant_id, subscription_id
 limit $3;

-- name: replace_subscription_secrets
-- Served by: subscriptions_pkey.
with free as (
    select s.tenant_id, s.subscription_id, n.new_headers, n.new_auth
      from unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::json[], $6::json[])
           as n(tenant_id, subscription_id, headers, auth, new_headers, new_auth)
      join subscriptions s
        on s.tenant_id = any(array[n.tenant_id]) and s.subscription_id = n.subscription_id
     where s.headers::text = n.headers
       and s.auth::text is not distinct from n.auth
       for update of s skip locked
)
update subscriptions s
   set headers = free.new_headers, auth = free.new_auth
  from free
 where s.tenant_id = any(array[free.tenant_id]) and s.subscription_id = free.subscription_id
returning 1;

-- name: job_secrets_after
-- Served by: dispatch_jobs_pkey.
select tenant_id, job_id, headers, auth
  from dispatch_jobs
 where (tenant_id, job_id) > ($1, $2)
 order by tenant_id, job_id
 limit $3;

-- name: replace_job_secrets
-- Served by: dispatch_jobs_pkey.
with free as (
    select j.tenant_id, j.job_id, n.new_headers, n.new_auth
      from unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::json[], $6::json[])
           as n(tenant_id, job_id, headers, auth, new_headers, new_auth)
      join dispatch_jobs j on j.tenant_id = any(array[n.tenant_id]) and j.job_id = n.job_id
     where j.headers::text is not distinct from n.headers
       and j.auth::text is not distinct from n.auth
       for update of j skip locked
)
update dispatch_jobs j
   set headers = free.new_headers, auth = free.new_auth
  from free
 where j.tenant_id = any(array[free.tenant_id]) and j.job_id = free.job_id
returning 1;

-- name: resource_secrets_after
-- Served by: resources_pkey.
select tenant_id, name, definition
  from resources
 where (tenant_id, name) > ($1, $2)
 order by tenant_id, name
 limit $3;

-- name: replace_resource_secrets
-- Served by: resources_pkey.
with free as (
    select r.tenant_id, r.name, n.renewed
      from unnest($1::integer[], $2::text[], $3::text[], $4::json[])
           as n(tenant_id, name, definition, renewed)
      join resources r on r.tenant_id = any(array[n.tenant_id]) and r.name = n.name
     where r.definition::text = n.definition
       for update of r skip locked
)
update resources r
   set definition = free.renewed
  from free
 where r.tenant_id = any(array[free.tenant_id]) and r.name = free.name
returning 1;

-- name: record_secrets_after
-- The values of encrypted fields, and what is still encrypted of fields that once were. Collections
-- without such fields are left out.
-- Served by: records_pkey.
with encrypted as materialized (
    select c.tenant_id, c.collection_no,
           array_agg(f.name) filter (where f.is_encrypted) as names,
           array_agg(distinct f.name) as all_names
      from collections c
     cross join lateral (
           select d ->> 'name' as name, true as is_encrypted
             from json_array_elements(c.definition -> 'fields') as d
            where d ->> 'type' = 'ENCRYPTED'
            union all
           select m, false from json_array_elements_text(c.definition -> 'masked') as m) as f
     group by c.tenant_id, c.collection_no
)
select r.tenant_id, r.collection_no, r.record_id, r.collection_no || '/' || r.record_id as place,
       (select jsonb_object_agg(name, r.data -> name)
          from unnest(e.all_names) as name
         where jsonb_typeof(r.data -> name) = 'string'
           and (name = any(e.names) or starts_with(r.data ->> name, 'enc:1:')))::text as data
  from encrypted e
 cross join lateral (
       select k.tenant_id, k.collection_no, k.record_id, k.data
         from records k
        where k.tenant_id = e.tenant_id
          and k.collection_no = e.collection_no
          and k.record_id > case when (e.tenant_id, e.collection_no) = ($1, $2) then $3 else '' end
        order by k.record_id
        limit $4) as r
 where (e.tenant_id, e.collection_no) >= ($1, $2)
 order by r.tenant_id, r.collection_no, r.record_id
 limit $4;

-- name: replace_record_secrets
-- The version stays: the record is the same. The revision moves, so that no change that was decided
-- before writes the old values back. Its history keeps what was encrypted under old keys, and shows
-- it to nobody.
-- Served by: records_pkey.
with free as (
    select r.tenant_id, r.collection_no, r.record_id, n.renewed
      from unnest($1::integer[], $2::integer[], $3::text[], $4::jsonb[], $5::jsonb[])
           as n(tenant_id, collection_no, record_id, data, renewed)
      join records r on r.tenant_id = any(array[n.tenant_id])
       and r.collection_no = n.collection_no and r.record_id = n.record_id
     where r.data @> n.data
       for update of r skip locked
)
update records r
   set data = r.data || free.renewed, revision = r.revision + 1
  from free
 where r.tenant_id = any(array[free.tenant_id]) and r.collection_no = free.collection_no
   and r.record_id = free.record_id
returning 1;
