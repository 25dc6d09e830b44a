-- `any(array[…])`: force look-ups by key; see storage/postgres/pool.py.

-- name: load_waits
-- The rows of these waits. A spec may be missing if Postgres was restored or lost its last writes.
-- Served by: execution_wait_states_pkey.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, w.spec_id, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at,
       extract(epoch from w.due_at)::float8 as due_at
  from execution_wait_states w
  left join wait_specs s on s.tenant_id = any(array[w.tenant_id]) and s.spec_id = w.spec_id
 where w.wait_key = any($1::bytea[]);

-- name: size_early
-- The sizes of events that arrived before these waits ($1), and which were refused because there
-- were too many; at most $2 for each wait. Reads no payload.
-- Served by: event_inbox_event.
select asked.wait_key, early.event_id, early.size, early.reason
  from unnest($1::bytea[]) as asked(wait_key)
 cross join lateral (
       select i.event_id, octet_length(i.payload) as size, i.reason
         from event_inbox i
        where i.wait_key = any(array[asked.wait_key])
          and (i.verdict = 'buffered' or i.reason in ('execution_mismatch', 'too_many_early'))
          and i.expires_at > now()
        limit $2) as early;

-- name: load_early
-- Events that arrived before these waits ($1), in the order of arrival: at most $2 for each, and as
-- many as fit into $3 bytes, at least one.
-- Served by: event_inbox_event.
select wait_key, tenant_id, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, payload, outcome, verdict, reason, clause, at
  from unnest($1::bytea[]) as asked(key)
 cross join lateral (
       select near.*, extract(epoch from near.received_at)::float8 as at,
              sum(octet_length(near.payload)) over (order by near.received_at, near.event_id)
              - octet_length(near.payload) as before
         from (select i.*
                 from event_inbox i
                where i.wait_key = any(array[asked.key])
                  and (i.verdict = 'buffered' or i.reason = 'execution_mismatch')
                  and i.expires_at > now()
                limit 4 * $2) as near
        order by near.received_at, near.event_id
        limit $2) as early
 where before < $3;

-- name: find_elsewhere
-- An execution that waits under the same correlation id as an unknown key: $1 key, $2 its tenant,
-- $3 and $4 the range of keys that share its first half, which is only a hash. Reads the first $5
-- rows of that range: the cost must not grow with the ended waits of one correlation id, and an id
-- that so many share identifies no execution.
-- Served by: execution_wait_states_pkey.
select asked.wait_key, other.execution_id
  from unnest($1::bytea[], $2::int[], $3::bytea[], $4::bytea[])
       as asked(wait_key, tenant_id, lower, upper)
 cross join lateral (
       select near.execution_id
         from (select w.execution_id, w.tenant_id, w.status
                 from execution_wait_states w
                where w.wait_key between asked.lower and asked.upper
                order by w.wait_key
                limit $5) as near
        where near.status = 'waiting' and near.tenant_id = asked.tenant_id
        limit 1) as other;

-- name: find_by_node
-- The correlation id of a node of an execution.
-- Served by: execution_wait_states_node.
select correlation_id
  from execution_wait_states
 where tenant_id = $1 and execution_id = $2 and node_id = $3;

-- name: flush
-- One flush of a shard: unknown specs ($1), new waits ($2), changed waits ($3), log entries ($4),
-- events to delete from the inbox ($5) and events to publish ($6), written by $7. A changed row
-- must still have the version that was read; otherwise its log entries and events are left out as
-- well. Returns the keys that were stored; the others must be read and decided again. `(… in …) is
-- true` keeps the planner from a nested-loop join: it cannot know how many rows a flush has, and
-- assumes ten.
with specs as (
    insert into wait_specs (tenant_id, spec_id, spec, last_deadline)
    select s.tenant_id, s.spec_id, s.spec, to_timestamp(s.last_deadline)
      from unnest($1::flushed_spec[]) as s
        on conflict (tenant_id, spec_id) do update
       set last_deadline = greatest(wait_specs.last_deadline, excluded.last_deadline)
), opened as (
    insert into execution_wait_states
           (wait_key, tenant_id, execution_id, correlation_id, node_id, aggregation_strategy,
            status, version, log_length, spec_id, marks, ending, registered_by,
            created_at, updated_at, expires_at, due_at, resumed_at, resumed_by)
    select n.wait_key, n.tenant_id, n.execution_id, n.correlation_id, n.node_id, n.strategy,
           n.status, n.version, n.log_length, n.spec_id, n.marks, n.ending, n.registered_by,
           to_timestamp(n.opened_at), now(), to_timestamp(n.expires_at), to_timestamp(n.due_at),
           to_timestamp(n.resumed_at), case when n.resumed_at is not null then $7::text end
      from unnest($2::opened_wait[]) as n
        on conflict do nothing
    returning wait_key
), saved as (
    update execution_wait_states w
       set version = c.version,
           log_length = c.log_length,
           status = c.status,
           marks = c.marks,
           ending = c.ending,
           updated_at = now(),
           due_at = case when c.status = 'waiting' then to_timestamp(c.due_at) else w.due_at end,
           resumed_at = to_timestamp(c.resumed_at),
           resumed_by = case when c.resumed_at is null then null
                             else coalesce(w.resumed_by, $7::text) end
      from unnest($3::saved_wait[]) as c
     where w.wait_key = any(array[c.wait_key])
       and w.version = c.seen
    returning w.wait_key
), kept as (
    select wait_key from opened
    union all
    select wait_key from saved
), logged as (
    insert into wait_state_events
           (wait_key, tenant_id, seq, kind, event, event_id, source, label, content_type,
            payload, at)
    select l.wait_key, l.tenant_id, l.seq, l.kind, l.event, l.event_id, l.source, l.label,
           l.content_type, l.payload, to_timestamp(l.at)
      from unnest($4::log_line[]) as l
     where (l.wait_key in (select wait_key from kept)) is true
       -- An event that counts can come once only; one that does not may be sent again and again.
       and (l.kind not in ('late', 'duplicate')
            or not exists (select from wait_state_events known
                            where known.wait_key = any(array[l.wait_key])
                              and known.event_id = l.event_id))
), unparked as (
    delete from event_inbox i
     using unnest($5::taken_event[]) as u
     where i.wait_key = any(array[u.wait_key])
       and i.event_id = u.event_id
       and (u.wait_key in (select wait_key from kept)) is true
), published as (
    insert into outbox (wait_key, tenant_id, topic, record_key, event_type)
    select o.wait_key, o.tenant_id, o.topic, o.record_key, o.event_type
      from unnest($6::outgoing_event[]) as o
     where (o.wait_key in (select wait_key from kept)) is true
)
select wait_key from kept;

-- name: restore_spec
-- Store a spec again that waits need and Postgres has lost.
insert into wait_specs (tenant_id, spec_id, spec, last_deadline)
values ($1, $2, $3, to_timestamp($4))
    on conflict (tenant_id, spec_id) do update
   set last_deadline = greatest(wait_specs.last_deadline, excluded.last_deadline);

-- name: park
-- Store events that no wait has taken. A parked event may get a new verdict, and one that was
-- stored without its data gets the data if there is room by now; any other repetition changes
-- nothing. Of the events that a wait refused, $3 events and $4 bytes are stored, so that one
-- callback URL cannot fill the disk. Early events are limited when they are decided.
-- Served by: event_inbox_event.
insert into event_inbox
       (wait_key, event_id, tenant_id, execution_id, correlation_id, turn_id, source, label,
        content_type, payload, outcome, verdict, reason, clause, received_at, expires_at)
select p.wait_key, p.event_id, p.tenant_id, p.execution_id, p.correlation_id, p.turn_id,
       p.source, p.label, p.content_type, p.payload, p.outcome, p.verdict, p.reason, p.clause,
       to_timestamp(p.at), to_timestamp(p.at) + $2 * interval '1 second'
  from unnest($1::parked_event[]) as p
 where p.wait_key = ''::bytea
    or p.verdict <> 'rejected'
    or p.reason in ('execution_mismatch', 'too_many_early')
    or (select count(*) < $3 and coalesce(sum(size), 0) < $4
          from (select octet_length(k.payload) as size
                  from event_inbox k
                 where k.wait_key = any(array[p.wait_key]) and k.verdict = 'rejected'
                 limit $3) as known)
    on conflict (wait_key, event_id, tenant_id) do update
   set verdict = excluded.verdict, reason = excluded.reason, clause = excluded.clause,
       payload = case when event_inbox.reason = 'too_many_early' then excluded.payload
                      else event_inbox.payload end
 where (event_inbox.verdict = 'buffered'
        or event_inbox.reason in ('execution_mismatch', 'too_many_early'))
   and excluded.reason <> 'too_many_early';

-- name: look_back_at_waits
-- The limits of one bounded scan of a tenant's waits from $2 on and at least $3 seconds old, newest
-- first: the time of the last of $4 waits that it reads, and of the next one.
-- Served by: execution_wait_states_recent, which is all that is read.
select extract(epoch from created_at)::float8 as opened_at
  from execution_wait_states
 where tenant_id = $1
   and ($2::float8 is null or created_at <= to_timestamp($2))
   and ($3::float8 is null or created_at <= now() - $3 * interval '1 second')
 order by created_at desc
offset $4
 limit 2;

-- name: list_waits
-- A page of a tenant's waits, newest first, down to the time $9. Null filters match all; $6, $7
-- continue after a row. An index serves the execution; for the other filters everything down to $9
-- is read, so the caller bounds it.
-- Served by: execution_wait_states_recent, execution_wait_states_node.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, w.spec_id, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at,
       extract(epoch from w.due_at)::float8 as due_at
  from execution_wait_states w
  left join wait_specs s using (tenant_id, spec_id)
 where w.tenant_id = $1
   and ($2::text is null or w.status = $2)
   and ($3::text is null or w.execution_id = $3)
   and ($4::text is null or w.aggregation_strategy = $4)
   and ($5::float8 is null or w.created_at <= now() - $5 * interval '1 second')
   and ($6::float8 is null or (w.created_at, w.wait_key) < (to_timestamp($6), $7::bytea))
   and ($9::float8 is null or w.created_at >= to_timestamp($9))
 order by w.created_at desc, w.wait_key desc
 limit $8;

-- name: read_wait
-- One wait with the columns that only its row has.
-- Served by: execution_wait_states_pkey.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, w.spec_id, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at,
       extract(epoch from w.due_at)::float8 as due_at,
       extract(epoch from w.resumed_at)::float8 as resumed_at, w.resumed_by
  from execution_wait_states w
  left join wait_specs s using (tenant_id, spec_id)
 where w.wait_key = $1 and w.tenant_id = $2;

-- name: read_log
-- The log entries of a wait after number $2: as many as fit into $3 bytes of data, at least one.
-- Served by: wait_state_events_pkey.
select seq, kind, event, event_id, source, label, content_type, payload, at
  from (select seq, kind, event, event_id, source, label, content_type, payload,
               extract(epoch from at)::float8 as at,
               sum(octet_length(payload)) over (order by seq) - octet_length(payload) as before
          from wait_state_events
         where wait_key = $1 and seq > $2) as lines
 where before < $3
 order by seq;

-- name: read_lines
-- The log entries of a wait with these numbers.
-- Served by: wait_state_events_pkey.
select seq, kind, event, event_id, source, label, content_type, payload,
       extract(epoch from at)::float8 as at
  from wait_state_events
 where wait_key = $1 and seq = any($2::int[])
 order by seq;

-- name: read_lines_of_all
-- Log entries of many waits, by wait ($1) and number ($2).
-- Served by: wait_state_events_pkey.
select l.wait_key, l.seq, l.kind, l.event, l.event_id, l.source, l.label, l.content_type,
       l.payload, extract(epoch from l.at)::float8 as at
  from unnest($1::bytea[], $2::int[]) as asked(wait_key, seq)
  join wait_state_events l on l.wait_key = any(array[asked.wait_key]) and l.seq = asked.seq;

-- name: forget_ended
-- Delete a batch of waits that ended more than $1 seconds ago, with their logs, except those whose
-- end is still to be published, because publishing reads their rows.
-- Served by: execution_wait_states_due. `not in` reads the outbox once and hashes it; a join would be
-- by nested loops. A row of the outbox is as old as the end that it tells of.
with old as (
    select w.wait_key
      from execution_wait_states w
     where w.due_at < now() - $1 * interval '1 second'
       and w.updated_at < now() - $1 * interval '1 second'
       and w.status <> 'waiting'
       and w.wait_key not in (select o.wait_key
                                from outbox o
                               where o.created_at < now() - $1 * interval '1 second')
     limit $2
), logs as (
    delete from wait_state_events l using old where l.wait_key = any(array[old.wait_key])
)
delete from execution_wait_states w using old where w.wait_key = any(array[old.wait_key])
returning w.wait_key;

-- name: forget_specs
-- Delete specs that no wait can use any more: their last deadline is past retention by a day, and
-- no row of that age is left.
-- Served by: wait_specs_deadline, execution_wait_states_due.
delete from wait_specs
 where last_deadline < now() - $1 * interval '1 second' - interval '1 day'
   and not exists (select from execution_wait_states
                    where due_at < now() - $1 * interval '1 second');

-- name: census_sizes
-- How large the tables are that are counted, in bytes, without what is stored apart.
select pg_relation_size('execution_wait_states') as waits, pg_relation_size('event_inbox') as inbox;

-- name: census
-- How many waits there are by status, over what is still kept, in $1 percent of the table's pages.
select status, count(*) as waits
  from execution_wait_states tablesample system ($1::float4)
 group by status;
