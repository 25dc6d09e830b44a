-- Topics that waits have named: ingest reads them from here on, without a restart.
create table wait_topics (
    tenant_id     integer not null,
    topic         text not null,
    -- No wait that names it has a later deadline, as far as was known when it was written.
    last_deadline timestamptz not null,
    primary key (topic, tenant_id)
);

-- Records that could not be read or handled. Their partition went on without them.
create table dead_letters (
    letter_id       bigint generated always as identity primary key,
    tenant_id       integer not null,
    topic           text not null,
    kafka_partition integer not null,
    kafka_offset    bigint not null,
    record_key      bytea,
    headers         json not null,
    -- Null is a tombstone.
    payload         bytea,
    error           text not null,
    attempts        integer not null default 1,
    failed_at       timestamptz not null default now(),
    -- When it was handled after all; kept for a while, so that a second try finds it done.
    redriven_at     timestamptz
);
create unique index dead_letters_place
    on dead_letters (topic, kafka_partition, kafka_offset, tenant_id);
create index dead_letters_recent on dead_letters (tenant_id, letter_id);

-- What is to be published, written together with the state that asks for it. Rows leave when the
-- broker has confirmed them.
create table outbox (
    outbox_id  bigint generated always as identity primary key,
    tenant_id  integer not null,
    wait_key   bytea not null,
    topic      text not null,
    record_key text not null,
    event_type text not null,
    created_at timestamptz not null default now()
) with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_delay = 0
);

create type outgoing_event as (
    wait_key   bytea,
    tenant_id  integer,
    topic      text,
    record_key text,
    event_type text
);
create type dead_letter as (
    tenant_id       integer,
    topic           text,
    kafka_partition integer,
    kafka_offset    bigint,
    record_key      bytea,
    headers         json,
    payload         bytea,
    error           text
);
