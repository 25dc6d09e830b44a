-- The key has no place in this index: PostgreSQL 18 can look up a key behind other columns too, once
-- for each tenant and moment there is. While all waits are of one moment that seems as good as the
-- primary key, and the plan is kept.
drop index execution_wait_states_recent;
create index execution_wait_states_recent on execution_wait_states (tenant_id, created_at);
