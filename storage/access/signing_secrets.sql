-- name: retire_secrets
-- Accept the secrets of a purpose for $2 seconds more, unless they end earlier.
-- A table of a few rows: no index.
update signing_secrets
   set retired_at = least(retired_at, now() + $2 * interval '1 second')
 where purpose = $1;

-- name: add_secret
-- Add a secret for a purpose, which signs from now on.
insert into signing_secrets (purpose, secret) values ($1, $2) returning secret_id;

-- name: list_secrets
-- Every stored secret, without its value.
-- A table of a few rows: no index.
select secret_id, purpose,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from retired_at)::float8 as retired_at,
       extract(epoch from now() - created_at)::float8 as age,
       (retired_at is null or retired_at > now()) as is_live
  from signing_secrets
 order by purpose, secret_id desc;

-- name: forget_secrets
-- Delete secrets that have not been accepted for $1 seconds.
-- A table of a few rows: no index.
delete from signing_secrets where retired_at < now() - $1 * interval '1 second';
