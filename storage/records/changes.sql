-- `any(array[…])`, `offset 0`: force look-ups by key; see storage/postgres/pool.py.

-- name: read_changes
-- The changes of $1 to $4 in that order, up to $5 bytes together and one more; a change that is
-- gone has no version.
-- Served by: the primary key of each partition.
select place, tenant_id, collection_no, record_id, change_id, version, kind, data, before, user_id,
       cause, at
  from (select asked.place, asked.tenant_id, asked.collection_no, asked.record_id, asked.change_id,
               c.version, c.kind, c.data, c.before, c.user_id, c.cause,
               extract(epoch from c.at)::float8 as at,
               coalesce(sum(c.document_bytes)
                            over (order by asked.place
                                  rows between unbounded preceding and 1 preceding),
                        0) as bytes_before
          from unnest($1::int[], $2::int[], $3::text[], $4::text[]) with ordinality
               as asked(tenant_id, collection_no, record_id, change_id, place)
          left join lateral (
               select k.*
                 from record_changes k
                where k.tenant_id = any(array[asked.tenant_id])
                  and k.collection_no = asked.collection_no
                  and k.record_id = asked.record_id
                  and k.change_id = asked.change_id
               offset 0) as c on true) as found
 where bytes_before < $5
 order by place;

-- name: read_changed_collections
-- What events say of these collections ($1), with the fields that are ENCRYPTED or once were.
-- Served by: collections_pkey, tenants_pkey.
select c.collection_no, t.slug as tenant, c.collection_id, c.name,
       array(select f ->> 'name'
               from json_array_elements(c.definition -> 'fields') as f
              where f ->> 'type' = 'ENCRYPTED'
              union
             select m from json_array_elements_text(c.definition -> 'masked') as m) as encrypted
  from collections c
  join tenants t on t.tenant_id = c.tenant_id
 where c.collection_no = any($1::int[]);

-- name: oldest_unsent_change
-- The oldest change that others are still to be told of. Reads both outboxes, which are short while
-- others are told.
select min(change_id)
  from (select min(change_id) as change_id from change_outbox
         union all
        select min(change_id) from event_outbox) as unsent;

-- name: followed_patterns
-- The places of those patterns ($2) to which an active subscription of the tenant ($1) or of the
-- anchor is bound.
-- Served by: subscription_bindings_pattern, subscriptions_pkey.
select asked.place
  from unnest($1::int[], $2::text[]) with ordinality as asked(tenant_id, pattern, place)
 where exists (select
                 from subscription_bindings b
                where b.pattern = asked.pattern
                  and b.tenant_id in (asked.tenant_id, 0)
                  and exists (select from subscriptions s
                               where s.tenant_id = b.tenant_id
                                 and s.subscription_id = b.subscription_id
                                 and s.status = 'ACTIVE'
                              offset 0)
               offset 0);
