-- `any(array[…])`, `offset 0`: force look-ups by key; see storage/postgres/pool.py.

-- name: put_resource
-- Create or replace a resource; return true if it is new.
insert into resources (tenant_id, name, definition)
values ($1, $2, $3)
    on conflict (tenant_id, name) do update
   set definition = excluded.definition, updated_at = now()
returning xmax = 0;

-- name: find_resources
-- The resources of these names.
-- Served by: resources_pkey.
select name, definition
  from resources
 where tenant_id = $1 and name = any($2::text[]);

-- name: list_resources
-- A page of a tenant's resources by name, after $2.
-- Served by: resources_pkey.
select name, definition,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from resources
 where tenant_id = $1 and name > $2
 order by name
 limit $3;

-- name: read_resource
-- One resource.
-- Served by: resources_pkey.
select name, definition,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at
  from resources
 where tenant_id = $1 and name = $2;

-- name: drop_resource
-- Remove a resource.
delete from resources where tenant_id = $1 and name = $2 returning name;

-- name: open_gathers
-- Gathers that were opened more than $1 seconds ago and are still open, without their specs, which
-- may be large. Other waits with the same strategy may last for months; every gather is due within
-- $3 seconds.
-- Served by: execution_wait_states_settling, wait_state_events_pkey.
select w.tenant_id, w.execution_id, w.correlation_id, w.marks, s.spec,
       extract(epoch from w.expires_at)::float8 as expires_at
  from execution_wait_states w
  join wait_specs s on s.tenant_id = any(array[w.tenant_id]) and s.spec_id = w.spec_id
 where w.aggregation_strategy = 'settled'
   and w.status = 'waiting'
   and w.due_at > now()
   and w.due_at <= now() + $3 * interval '1 second'
   and w.created_at < now() - $1 * interval '1 second'
   and exists (select from wait_state_events l
                where l.wait_key = w.wait_key and l.seq = 1 and l.kind = 'asked'
               offset 0)
 order by w.due_at
 limit $2;
