-- name: claim_relay
-- Only one relay publishes at a time, to keep the order per key. The lock lasts as long as the
-- connection.
select pg_try_advisory_lock($1);

-- name: next_outgoing
-- The next messages to publish, in stored order, except those of topics ($3) that accept none.
-- Served by: outbox_pkey.
select outbox_id, tenant_id, wait_key, topic, record_key, event_type,
       extract(epoch from created_at)::float8 as created_at
  from outbox
 where outbox_id > $1
   and topic <> all($3::text[])
 order by outbox_id
 limit $2;

-- name: confirm_outgoing
-- Delete messages that the broker has acknowledged.
delete from outbox where outbox_id = any($1::bigint[]);

-- name: outbox_backlog
-- The number of unpublished messages, and the age of the oldest.
select count(*) as rows,
       coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as oldest
  from outbox;
