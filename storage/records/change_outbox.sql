-- name: next_change_messages
-- The next changes to publish to Kafka, in stored order, except those of topics ($3) that accept
-- none.
-- Served by: change_outbox_pkey.
select outbox_id, tenant_id, collection_no, record_id, change_id, topic
  from change_outbox
 where outbox_id > $1
   and topic <> all($3::text[])
 order by outbox_id
 limit $2;

-- name: confirm_change_messages
-- Delete messages that the broker has acknowledged.
-- Served by: change_outbox_pkey.
delete from change_outbox where outbox_id = any($1::bigint[]);

-- name: change_outbox_backlog
-- The number of unpublished changes, $1 at most, and the age of the first of them.
-- Served by: change_outbox_pkey.
select count(*) as rows,
       coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as oldest
  from (select created_at from change_outbox order by outbox_id limit $1) as first;

-- name: next_change_events
-- The next changes that subscriptions follow, in stored order: up to $3 of each of $2 tenants, with
-- numbers above $1. The tenants are found one by one, without reading their rows.
-- Served by: event_outbox_pkey.
with recursive waiting as (
    (select tenant_id, 1 as place
       from event_outbox
      where tenant_id > $1
      order by tenant_id
      limit 1)
     union all
    select later.tenant_id, w.place + 1
      from waiting w
     cross join lateral (
           select e.tenant_id
             from event_outbox e
            where e.tenant_id > w.tenant_id
            order by e.tenant_id
            limit 1) as later
     where w.place < $2
)
select o.tenant_id, o.outbox_id, o.collection_no, o.record_id, o.change_id
  from waiting w
 cross join lateral (
       select *
         from event_outbox e
        where e.tenant_id = w.tenant_id
        order by e.outbox_id
        limit $3) as o
 order by o.tenant_id, o.outbox_id;

-- name: confirm_change_events
-- Delete rows of a tenant ($1) whose events are stored.
-- Served by: event_outbox_pkey.
delete from event_outbox where tenant_id = $1 and outbox_id = any($2::bigint[]);

-- name: event_outbox_backlog
-- The number of changes that are no events yet, and the age of the oldest: of up to $2 tenants, up
-- to $1 changes of each. The tenants are found one by one, without reading their rows.
-- Served by: event_outbox_pkey.
with recursive waiting as (
    (select tenant_id, 1 as place from event_outbox order by tenant_id limit 1)
     union all
    select later.tenant_id, w.place + 1
      from waiting w
     cross join lateral (
           select e.tenant_id
             from event_outbox e
            where e.tenant_id > w.tenant_id
            order by e.tenant_id
            limit 1) as later
     where w.place < $2
)
select count(*) as rows,
       coalesce(extract(epoch from now() - min(first.created_at)), 0)::float8 as oldest
  from waiting w
 cross join lateral (
       select e.created_at
         from event_outbox e
        where e.tenant_id = w.tenant_id
        order by e.outbox_id
        limit $1) as first;
