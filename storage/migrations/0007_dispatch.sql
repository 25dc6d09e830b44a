-- Events, who wants them, and the jobs that bring them there.

-- The anchor: what belongs to no tenant belongs to it. Its subscriptions take every tenant's events,
-- its pools serve every tenant's subscriptions. No tenant can be given a slug with an @.
insert into tenants (tenant_id, slug) overriding system value values (0, '@anchor');

-- Each process that makes ids draws a number, so that no two make the same one (core/shared/tsid.py).
create sequence id_makers minvalue 0 maxvalue 1023 cycle;

create table events (
    tenant_id        integer not null,
    event_id         text not null collate "C",
    spec_version     text not null,
    type             text not null collate "C",
    source           text not null,
    subject          text,
    time             timestamptz not null,
    -- As it came, to the byte.
    data             bytea,
    content_type     text,
    data_schema      text,
    -- The version of its type that it was held against.
    type_version     text,
    execution_id     text,
    correlation_id   text,
    causation_id     text,
    deduplication_id text,
    message_group    text,
    -- key=value, as given; what people search by.
    context          text[],
    -- Further attributes of the CloudEvent.
    extensions       json,
    created_at       timestamptz not null default now(),
    primary key (tenant_id, event_id)
);
create unique index events_once on events (tenant_id, deduplication_id)
 where deduplication_id is not null;
create index events_type on events (tenant_id, type, event_id);
create index events_context on events using gin (context) where context is not null;

-- A rate and a number of places that deliveries share. Each is kept by one actor.
create table dispatch_pools (
    pool_no     integer generated always as identity primary key,
    tenant_id   integer not null references tenants,
    pool_id     text not null,
    code        text not null collate "C",
    name        text not null,
    description text,
    -- Deliveries a minute; null: as many as there are.
    rate_limit  integer check (rate_limit >= 1),
    concurrency integer not null default 10 check (concurrency >= 1),
    status      text not null default 'ACTIVE' check (status in ('ACTIVE', 'SUSPENDED', 'ARCHIVED')),
    -- Who declared it among all its own, and may take it away again.
    application text,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    unique (tenant_id, code),
    unique (tenant_id, pool_id)
);
-- Where deliveries go that name no pool.
insert into dispatch_pools (tenant_id, pool_id, code, name, concurrency)
values (0, 'dpl_default', 'default', 'Default', 200);

create table subscriptions (
    tenant_id       integer not null references tenants,
    subscription_id text not null collate "C",
    code            text not null collate "C",
    name            text not null,
    description     text,
    -- Raised with each change that matters to deliveries: whoever remembers it sees that it is old.
    version         integer not null default 1,
    target          text not null,
    queue           text,
    pool_no         integer not null references dispatch_pools,
    mode            text not null default 'IMMEDIATE'
                    check (mode in ('IMMEDIATE', 'NEXT_ON_ERROR', 'BLOCK_ON_ERROR')),
    timeout_seconds integer not null default 30,
    max_age_seconds integer not null default 86400,
    delay_seconds   integer not null default 0,
    max_retries     integer not null default 3,
    sequence        integer not null default 99,
    data_only       boolean not null default true,
    -- A CEL expression on the event; null: all that its bindings name.
    filter          text,
    headers         json not null default '{}',
    -- Has secrets in it: {"type": "bearer", "token": …} or {"type": "basic", "username": …, …}.
    auth            json,
    signature       text not null default 'standard' check (signature in ('standard', 'classic')),
    custom_config   json not null default '[]',
    source          text not null default 'API' check (source in ('CODE', 'API', 'UI')),
    status          text not null default 'ACTIVE' check (status in ('ACTIVE', 'PAUSED')),
    -- Why it is paused, if nobody asked for it.
    status_reason   text,
    failing_since   timestamptz,
    -- Who declared it among all its own, and may take it away again.
    application     text,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    primary key (tenant_id, subscription_id),
    unique (tenant_id, code)
);
create index subscriptions_pool on subscriptions (pool_no);

-- Which events a subscription takes: a code, or four segments any of which may be *.
create table subscription_bindings (
    tenant_id       integer not null,
    subscription_id text not null collate "C",
    pattern         text not null collate "C",
    -- 1.0, 1.* or null: any.
    spec_version    text,
    primary key (tenant_id, subscription_id, pattern),
    foreign key (tenant_id, subscription_id) references subscriptions on delete cascade
);
create index subscription_bindings_pattern on subscription_bindings (pattern, tenant_id);

-- What deliveries are signed with. Several may be live, so that one can be replaced. Those of an
-- empty subscription sign the tenant's own jobs.
create table webhook_secrets (
    tenant_id       integer not null references tenants,
    subscription_id text not null collate "C",
    secret_no       integer generated always as identity,
    secret          bytea not null,
    created_at      timestamptz not null default now(),
    expires_at      timestamptz,
    primary key (tenant_id, subscription_id, secret_no)
);

-- One delivery. `standing` says in one word where it stands, so that `status` is in no index and
-- taking a job touches none: open, again (open, and no pool has it), error, done.
create table dispatch_jobs (
    tenant_id       integer not null,
    job_id          text not null collate "C",
    -- The order in which jobs were stored; that of their groups.
    position        bigint generated always as identity,
    pool_no         integer not null,
    kind            text not null check (kind in ('EVENT', 'TASK')),
    code            text not null,
    source          text,
    subject         text,
    -- Whose event it is: an anchor's job may bring another tenant's.
    event_tenant    integer,
    event_id        text collate "C",
    subscription_id text collate "C",
    correlation_id  text,
    external_id     text,
    target_url      text not null,
    message_group   text,
    mode            text not null,
    sequence        integer not null,
    max_retries     integer not null,
    timeout_seconds integer not null,
    data_only       boolean not null,
    status          text not null default 'QUEUED',
    standing        text not null default 'open'
                    check (standing in ('open', 'again', 'error', 'done')),
    attempt_count   integer not null default 0,
    -- How often it was taken: the fence by which an owner who lost it is told.
    sends           integer not null default 0,
    scheduled_for   timestamptz,
    expires_at      timestamptz,
    -- Whoever took it has it until then.
    lease_until     timestamptz,
    owner           text,
    last_attempt_at timestamptz,
    completed_at    timestamptz,
    last_error      text,
    ignored_at      timestamptz,
    idempotency_key text,
    -- Of a TASK; an EVENT's is its event's.
    payload         bytea,
    content_type    text,
    headers         json,
    -- Has secrets in it.
    auth            json,
    metadata        json,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    primary key (tenant_id, job_id)
) with (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
-- What a pool has to do, in order.
create index dispatch_jobs_open on dispatch_jobs (pool_no, position)
 where standing in ('open', 'again');
-- What it has been told to look at again.
create index dispatch_jobs_again on dispatch_jobs (pool_no, position) where standing = 'again';
-- Each group in its order, with what blocks it.
create index dispatch_jobs_group on dispatch_jobs
       (pool_no, tenant_id, message_group, sequence, position)
 where standing <> 'done' and message_group is not null and mode <> 'IMMEDIATE';
create index dispatch_jobs_error on dispatch_jobs (tenant_id, job_id) where standing = 'error';
create index dispatch_jobs_event on dispatch_jobs (event_id) where event_id is not null;
create unique index dispatch_jobs_once on dispatch_jobs (tenant_id, idempotency_key)
 where idempotency_key is not null;

-- Each time a job was sent, and what came of it.
create table dispatch_attempts (
    tenant_id      integer not null,
    job_id         text not null collate "C",
    send_no        integer not null,
    -- Which of its attempts this was; a deferral spends none and repeats the number.
    attempt_number integer not null,
    attempted_at   timestamptz not null,
    duration_ms    integer not null,
    status         text not null,
    response_code  integer,
    response_body  text,
    error_type     text,
    error_message  text,
    primary key (tenant_id, job_id, send_no)
);
-- What was sent lately: a pool that comes back keeps to the rate it had. Attempts are stored in the
-- order they were made, so that a summary of each range of pages is index enough.
create index dispatch_attempts_recent on dispatch_attempts using brin (attempted_at);

-- Groups that people hold back.
create table dispatch_parked_groups (
    pool_no       integer not null references dispatch_pools,
    tenant_id     integer not null references tenants,
    message_group text not null,
    reason        text,
    parked_by     text not null,
    parked_at     timestamptz not null default now(),
    primary key (pool_no, tenant_id, message_group)
);

-- What somebody should look at. The same again raises the count of the one that is there.
create table dispatch_warnings (
    warning_id      bigint generated always as identity primary key,
    tenant_id       integer not null references tenants,
    category        text not null,
    severity        text not null check (severity in ('INFO', 'WARNING', 'ERROR', 'CRITICAL')),
    source          text not null,
    message         text not null,
    count           integer not null default 1,
    first_at        timestamptz not null default now(),
    last_at         timestamptz not null default now(),
    acknowledged_at timestamptz,
    acknowledged_by text
);
create unique index dispatch_warnings_open on dispatch_warnings (tenant_id, category, source)
 where acknowledged_at is null;
create index dispatch_warnings_recent on dispatch_warnings (tenant_id, last_at);

-- How rows travel.
create type stored_event as (
    tenant_id        integer,
    event_id         text,
    spec_version     text,
    type             text,
    source           text,
    subject          text,
    time             double precision,
    data             bytea,
    content_type     text,
    data_schema      text,
    type_version     text,
    execution_id     text,
    correlation_id   text,
    causation_id     text,
    deduplication_id text,
    message_group    text,
    context          text[],
    extensions       json
);
create type event_job as (
    tenant_id       integer,
    job_id          text,
    pool_no         integer,
    code            text,
    source          text,
    subject         text,
    event_tenant    integer,
    event_id        text,
    subscription_id text,
    correlation_id  text,
    target_url      text,
    message_group   text,
    mode            text,
    sequence        integer,
    max_retries     integer,
    timeout_seconds integer,
    data_only       boolean,
    delay_seconds   integer,
    max_age_seconds integer
);
create type sent_job as (
    tenant_id      integer,
    job_id         text,
    send_no        integer,
    status         text,
    standing       text,
    attempt_count  integer,
    wait           double precision,
    last_error     text,
    attempt_number integer,
    attempted_at   double precision,
    duration_ms    integer,
    outcome        text,
    response_code  integer,
    response_body  text,
    error_type     text,
    error_message  text
);

-- Keys that allowed everything there was go on allowing everything.
update api_keys
   set permissions = permissions
       || '{events:read,events:write,event_types:read,event_types:write,subscriptions:read}'
       || '{subscriptions:write,dispatch:read,dispatch:write}'
 where permissions @> '{waits:read,waits:write,callbacks:write,inbox:read,inbox:write}'
   and permissions @> '{dead_letters:read,dead_letters:write,kafka:read,metrics:read,keys:write}'
   and permissions @> '{gathers:read,gathers:write,resources:read,resources:write}'
   and not permissions @> '{events:read}';
