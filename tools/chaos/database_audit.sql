-- `any(array[…])`: how writers keep to keys; see storage/postgres/pool.py.

-- name: audit_waits
-- These waits with what only their rows know, for whoever holds them against an account of his own.
-- Served by: execution_wait_states_pkey.
select w.wait_key, w.tenant_id, w.execution_id, w.correlation_id, w.node_id, w.version,
       w.log_length, s.spec, w.marks, w.ending, w.registered_by,
       extract(epoch from w.created_at)::float8 as opened_at,
       extract(epoch from w.expires_at)::float8 as expires_at,
       w.resumed_at is not null as resumed
  from execution_wait_states w
  join wait_specs s on s.tenant_id = any(array[w.tenant_id]) and s.spec_id = w.spec_id
 where w.wait_key = any($1::bytea[]);

-- name: audit_lines
-- Every line of the logs of these waits.
-- Served by: wait_state_events_pkey.
select wait_key, seq, kind, event, event_id, source, label, content_type, payload,
       extract(epoch from at)::float8 as at
  from wait_state_events
 where wait_key = any($1::bytea[])
 order by wait_key, seq;

-- name: audit_parked
-- Everything the inbox has for these addresses.
-- Served by: event_inbox_event.
select wait_key, tenant_id, execution_id, correlation_id, turn_id, event_id, source, label,
       content_type, payload, outcome, verdict, reason, clause,
       extract(epoch from received_at)::float8 as at
  from event_inbox
 where wait_key = any($1::bytea[]);

-- name: audit_waiting
-- Which of these waits have not ended.
-- Served by: execution_wait_states_pkey.
select wait_key from execution_wait_states where wait_key = any($1::bytea[]) and status = 'waiting';
