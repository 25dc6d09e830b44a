-- name: create_tenant
-- The tenant of this slug, created if it is new.
insert into tenants (slug) values ($1)
    on conflict (slug) do update set slug = excluded.slug
returning tenant_id;

-- name: tenant_slug
select slug from tenants where tenant_id = $1;

-- name: create_key
insert into api_keys (prefix, tenant_id, name, secret_hash, permissions, expires_at)
values ($1, $2, $3, $4, $5, now() + $6 * interval '1 second');

-- name: create_child_key
-- Create a key on behalf of another: it allows no more than its maker and expires no later. Returns
-- nothing if the maker is not live or lacks a permission. The maker's row is locked, so that
-- revoking it waits for this statement and then finds the child.
-- Served by: api_keys_pkey.
insert into api_keys (prefix, tenant_id, name, secret_hash, permissions, expires_at, created_by)
select $1, $2, $3, $4, $5, least(now() + $6 * interval '1 second', maker.expires_at), maker.prefix
  from api_keys maker
 where maker.prefix = $7
   and maker.tenant_id = $2
   and maker.permissions @> $5::text[]
   and maker.revoked_at is null
   and (maker.expires_at is null or maker.expires_at > now())
   for share
returning extract(epoch from expires_at)::float8 as expires_at;

-- name: find_key
-- The live key of a prefix, and the seconds until it expires.
select tenant_id as tenant, name, secret_hash, permissions,
       extract(epoch from expires_at - now())::float8 as lives
  from api_keys
 where prefix = $1
   and revoked_at is null
   and (expires_at is null or expires_at > now());

-- name: live_prefixes
-- Those of these prefixes that belong to live keys.
-- Served by: api_keys_pkey.
select prefix
  from api_keys
 where prefix = any($1::text[])
   and revoked_at is null
   and (expires_at is null or expires_at > now());

-- name: list_keys
select prefix, name, permissions, created_by,
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

-- name: revoke_children
-- Revoke the keys that these keys created; return them.
-- Served by: api_keys_maker.
update api_keys set revoked_at = now()
 where tenant_id = $1 and created_by = any($2::text[]) and revoked_at is null
returning prefix;

-- name: touch_keys
-- Store when these keys were last used.
update api_keys set last_used_at = now() where prefix = any($1::text[]);

-- name: live_secrets
-- The secrets for a purpose, newest first: sign with the first, accept any.
select secret from signing_secrets
 where purpose = $1 and (retired_at is null or retired_at > now())
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
