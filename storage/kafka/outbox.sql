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
