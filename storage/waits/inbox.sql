-- `any(array(…))`, `offset 0`: force look-ups by key; see storage/postgres/pool.py.

-- name: look_back_at_inbox
-- The limits of one bounded scan of a tenant's inbox before $2, newest first: the last of $3 events
-- that it reads, and the next one.
-- Served by: event_inbox_recent.
select inbox_id
  from event_inbox
 where tenant_id = $1 and ($2::bigint is null or inbox_id < $2)
 order by inbox_id desc
offset $3
 limit 2;

-- name: list_inbox
-- A page of a tenant's inbox, newest first. No index serves the filters, so the caller bounds the
-- scan by $7.
-- Served by: event_inbox_recent.
select inbox_id, execution_id, correlation_id, event_id, source, label,
       octet_length(payload) as size, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at,
       extract(epoch from expires_at)::float8 as expires_at
  from event_inbox
 where tenant_id = $1
   and ($2::text is null or verdict = $2)
   and ($3::text is null or reason = $3)
   and ($4::text is null or correlation_id = $4)
   and ($5::bigint is null or inbox_id < $5)
   and inbox_id >= $7
 order by inbox_id desc
 limit $6;

-- name: read_parked
-- One event of the inbox, with its payload.
select tenant_id, wait_key, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from event_inbox
 where tenant_id = $1 and inbox_id = $2;

-- name: delete_parked
-- Delete one event.
delete from event_inbox where tenant_id = $1 and inbox_id = $2 returning inbox_id;

-- name: near_misses
-- Events for one address that no wait has taken: the newest of the first $5 rows of its key ($1),
-- and of as many rows of other executions with its correlation id ($2 to $3).
-- Served by: event_inbox_event.
select tenant_id, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, ''::bytea as payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from ((select * from event_inbox where wait_key = $1 limit $5)
        union all
        (select * from event_inbox where wait_key >= $2 and wait_key < $1 limit $5)
        union all
        (select * from event_inbox where wait_key > $1 and wait_key <= $3 limit $5)) as near
 where tenant_id = $4
 order by received_at desc
 limit $6;

-- name: slice_of_inbox
-- The number of events in the next slice of $2 after $1, and its last id.
-- Served by: event_inbox_pkey.
select count(*), coalesce(max(inbox_id), $1)
  from (select inbox_id from event_inbox where inbox_id > $1 order by inbox_id limit $2) as next;

-- name: stranded
-- Parked events after $1 and up to $2 whose wait exists by now, because two owners of one key wrote
-- at the same time. At most $3, and as many as fit into $4 bytes, at least one.
-- Served by: event_inbox_pkey, execution_wait_states_pkey.
select inbox_id, tenant_id, execution_id, correlation_id, turn_id, event_id,
       source, label, content_type, payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from (select i.*,
               sum(octet_length(i.payload)) over (order by i.inbox_id)
               - octet_length(i.payload) as before
          from event_inbox i
         where i.inbox_id > $1
           and i.inbox_id <= $2
           and (i.verdict = 'buffered' or i.reason = 'execution_mismatch')
           and i.expires_at > now()
           and exists (select from execution_wait_states w where w.wait_key = i.wait_key offset 0)
         order by i.inbox_id
         limit $3) as found
 where before < $4
 order by inbox_id;

-- name: settle_stranded
-- Delete stranded events that their wait has taken.
delete from event_inbox where inbox_id = any($1::bigint[]);

-- name: expire_parked
-- Delete a batch of expired parked events.
-- Served by: event_inbox_expiry.
delete from event_inbox
 where ctid = any(array(
       select ctid from event_inbox where expires_at <= now() order by expires_at limit $1))
   and expires_at <= now()
returning inbox_id;

-- name: inbox_census
-- How many parked events there are by verdict and reason, in $1 percent of the table's pages.
select verdict, reason, count(*) as events
  from event_inbox tablesample system ($1::float4)
 group by verdict, reason;
