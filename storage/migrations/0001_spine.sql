-- The spine: tenants and their keys, waiting correlations, their log, and the inbox.

create table tenants (
    tenant_id  integer generated always as identity primary key,
    slug       text not null unique,
    created_at timestamptz not null default now()
);

create table api_keys (
    prefix       text primary key,
    tenant_id    integer not null references tenants,
    name         text not null,
    secret_hash  bytea not null,
    permissions  text[] not null,
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
create index api_keys_tenant on api_keys (tenant_id, created_at);

-- Secrets the product signs with. Several may be live, so that one can be replaced.
create table signing_secrets (
    secret_id  integer generated always as identity primary key,
    purpose    text not null,
    secret     bytea not null,
    created_at timestamptz not null default now(),
    retired_at timestamptz
);

-- One row per correlation: what the per-correlation actor is rebuilt from.
-- wait_key is a hash of (tenant, correlation, execution); see core/shared/address.py.
-- Only created rows touch the indexes: an update changes no indexed column, so it stays on its
-- page (HOT), and fillfactor leaves it the room. No foreign key: a share lock on the tenant's
-- row for each registration would cost more than it guards.
create table execution_wait_states (
    wait_key             bytea primary key,
    tenant_id            integer not null,
    execution_id         text not null,
    correlation_id       text not null,
    node_id              text not null,
    aggregation_strategy text not null,
    status               text not null,
    version              integer not null,
    log_length           integer not null,
    spec                 json not null,
    marks                json not null,
    ending               json,
    registered_by        text not null,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    expires_at           timestamptz not null,
    due_at               timestamptz not null,
    resumed_at           timestamptz,
    resumed_by           text
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
create unique index execution_wait_states_node
    on execution_wait_states (tenant_id, execution_id, node_id);
create index execution_wait_states_due on execution_wait_states (due_at);
create index execution_wait_states_recent
    on execution_wait_states (tenant_id, created_at, wait_key);

-- The append-only log of each correlation. Payloads live here once, as they came.
create table wait_state_events (
    wait_key     bytea not null,
    event_id     text not null,
    tenant_id    integer not null,
    seq          integer not null,
    kind         text not null,
    event        text,
    source       text,
    label        text not null,
    content_type text not null,
    payload      bytea not null,
    at           timestamptz not null,
    primary key (wait_key, event_id)
);

-- Early and refused events with their verdict. An empty wait_key means an id was missing.
create table event_inbox (
    inbox_id       bigint generated always as identity primary key,
    tenant_id      integer not null,
    wait_key       bytea not null,
    event_id       text not null,
    execution_id   text,
    correlation_id text,
    turn_id        text not null,
    source         text not null,
    label          text not null,
    content_type   text not null,
    payload        bytea not null,
    outcome        text not null,
    verdict        text not null,
    reason         text not null,
    clause         json,
    received_at    timestamptz not null,
    expires_at     timestamptz not null
);
create unique index event_inbox_event on event_inbox (wait_key, event_id, tenant_id);
create index event_inbox_recent on event_inbox (tenant_id, inbox_id);
create index event_inbox_expiry on event_inbox (expires_at);

-- Field and header names that waits configured beyond the defaults: where to look for ids.
create table id_profiles (
    tenant_id          integer not null,
    correlation_field  text not null,
    execution_field    text not null,
    correlation_header text not null,
    execution_header   text not null,
    created_at         timestamptz not null default now(),
    primary key (
        tenant_id, correlation_field, execution_field, correlation_header, execution_header
    )
);

-- How far the timer has fired everything: it resumes from here after a restart.
create table timer_marks (
    name        text primary key,
    swept_until timestamptz not null
);
