-- Who can be asked: registered once, named by gathers.
create table resources (
    tenant_id  integer not null references tenants,
    name       text not null,
    -- Has secrets in it: only what makes the calls reads all of it.
    definition json not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (tenant_id, name)
);

-- Gathers by their deadline: what a pool that came back has to look at. Not by status as well: a
-- column that any index names, even in its condition, makes every update that changes it dear.
create index execution_wait_states_settling
    on execution_wait_states (due_at)
 where aggregation_strategy = 'settled';

-- Keys that allowed everything there was go on allowing everything.
update api_keys
   set permissions = permissions || '{gathers:read,gathers:write,resources:read,resources:write}'
 where permissions @> '{waits:read,waits:write,callbacks:write,inbox:read,inbox:write}'
   and permissions @> '{dead_letters:read,dead_letters:write,kafka:read,metrics:read,keys:write}'
   and not permissions @> '{gathers:read}';
