-- name: live_webhook_secrets
-- The live secrets that sign deliveries, newest first.
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
-- Add a secret, which becomes the first.
insert into webhook_secrets (tenant_id, subscription_id, secret) values ($1, $2, $3);

-- name: end_webhook_secrets
-- Retire the present secrets after so many seconds, unless they end earlier.
-- Served by: webhook_secrets_pkey.
update webhook_secrets
   set expires_at = least(expires_at, now() + $3 * interval '1 second')
 where tenant_id = $1 and subscription_id = $2;

-- name: trim_webhook_secrets
-- Delete expired secrets, and all but the newest $3.
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
