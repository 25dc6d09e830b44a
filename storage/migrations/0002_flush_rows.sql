-- A spec is stored once, however many waits share it: a wait's row carries its digest and stays
-- small, and every update of it with it.
create table wait_specs (
    tenant_id     integer not null,
    spec_id       bytea not null,
    spec          json not null,
    -- No wait with this spec has a later deadline.
    last_deadline timestamptz not null,
    primary key (tenant_id, spec_id)
);
create index wait_specs_deadline on wait_specs (last_deadline);

alter table execution_wait_states add column spec_id bytea;
update execution_wait_states
   set spec_id = substring(sha256(convert_to(spec::text, 'UTF8')) from 1 for 16);
insert into wait_specs
select tenant_id, spec_id, (array_agg(spec))[1], max(expires_at)
  from execution_wait_states
 group by tenant_id, spec_id;
alter table execution_wait_states
    alter column spec_id set not null,
    drop column spec;

-- Waits opened together are often answered together, in one transaction: until it commits, both
-- versions of each row must fit on their page, or the update touches every index.
alter table execution_wait_states set (fillfactor = 30);

-- A line's number is unique by the version check of its wait, and it is what readers ask for.
alter table wait_state_events drop constraint wait_state_events_pkey;
alter table wait_state_events add primary key (wait_key, seq);

-- How rows travel in a flush. One array of composites costs driver and server a third of what one
-- array per column costs.
create type flushed_spec as (
    tenant_id     integer,
    spec_id       bytea,
    spec          json,
    last_deadline double precision
);
create type opened_wait as (
    wait_key       bytea,
    tenant_id      integer,
    execution_id   text,
    correlation_id text,
    node_id        text,
    strategy       text,
    status         text,
    version        integer,
    log_length     integer,
    spec_id        bytea,
    marks          json,
    ending         json,
    registered_by  text,
    opened_at      double precision,
    expires_at     double precision,
    due_at         double precision,
    resumed_at     double precision
);
create type saved_wait as (
    wait_key   bytea,
    seen       integer,
    version    integer,
    log_length integer,
    status     text,
    marks      json,
    ending     json,
    due_at     double precision,
    resumed_at double precision
);
create type log_line as (
    wait_key     bytea,
    tenant_id    integer,
    seq          integer,
    kind         text,
    event        text,
    event_id     text,
    source       text,
    label        text,
    content_type text,
    payload      bytea,
    at           double precision
);
create type taken_event as (
    wait_key bytea,
    event_id text
);
create type parked_event as (
    wait_key       bytea,
    event_id       text,
    tenant_id      integer,
    execution_id   text,
    correlation_id text,
    turn_id        text,
    source         text,
    label          text,
    content_type   text,
    payload        bytea,
    outcome        text,
    verdict        text,
    reason         text,
    clause         json,
    at             double precision
);
