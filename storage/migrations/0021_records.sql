-- Collections define records. A change of a definition makes a new version of it.
create table collections (
    collection_no integer generated always as identity primary key,
    tenant_id     integer not null references tenants,
    collection_id text not null collate "C",
    name          text not null collate "C",
    description   text,
    -- Fields, relationships, formulas, and which indexed field is in which column of records.
    definition    json not null,
    field_count   integer not null,
    definition_bytes integer not null,
    -- The names of the collections that fields lead to or sum up.
    refers_to     text[] not null default '{}',
    version       integer not null default 1,
    status        text not null default 'ACTIVE',
    -- When the columns and unique values of its records can be filled anew; null once they are.
    reindex_at    timestamptz,
    -- The indexed fields whose columns do not serve listings until then.
    unfilled      text[] not null default '{}',
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    unique (tenant_id, name),
    unique (tenant_id, collection_id)
);

create index collections_reindex on collections (reindex_at) where reindex_at is not null;

create table collection_versions (
    collection_no integer not null references collections,
    version       integer not null,
    tenant_id     integer not null,
    definition    json not null,
    note          text,
    created_by    text,
    created_at    timestamptz not null default now(),
    primary key (collection_no, version)
);

-- Updated by key in every flush, so it is not partitioned. Three columns hold the values of up to
-- three indexed fields: an index for each field would be written by every row of the table.
create table records (
    tenant_id     integer not null,
    collection_no integer not null,
    record_id     text not null collate "C",
    version       integer not null,
    -- Moves when values are encrypted anew or unique values are filled in: the version stays, but
    -- whoever decided a change before must decide again.
    revision      integer not null default 0,
    data          jsonb not null,
    -- What a reader gets, which bounds pages: compressed, a document may have a hundredth of it.
    data_bytes    integer not null generated always as (octet_length(data::text)) stored,
    indexed_1     text collate "C",
    indexed_2     text collate "C",
    indexed_3     text collate "C",
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    created_by    text,
    updated_by    text,
    deleted_at    timestamptz,
    -- Which messages made its last versions: 8 bytes of a hash each, the latest at the end.
    recent_turns  bytea not null default '',
    primary key (tenant_id, collection_no, record_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 2);
create index records_indexed_1 on records (tenant_id, collection_no, indexed_1)
 where indexed_1 is not null;
create index records_indexed_2 on records (tenant_id, collection_no, indexed_2)
 where indexed_2 is not null;
create index records_indexed_3 on records (tenant_id, collection_no, indexed_3)
 where indexed_3 is not null;

-- Which record has a value that no other record of its collection may have.
create table record_unique_values (
    tenant_id     integer not null,
    collection_no integer not null,
    field         text not null collate "C",
    value_hash    bytea not null,
    record_id     text not null collate "C",
    primary key (tenant_id, collection_no, field, value_hash)
);

-- Every version of every record: its history, and what others are told of. Only appended to;
-- retention drops whole partitions. Partitions of a week are made ahead by maintenance.
create table record_changes (
    tenant_id     integer not null,
    collection_no integer not null,
    record_id     text not null collate "C",
    change_id     text not null collate "C",
    version       integer not null,
    kind          text not null,
    -- The document after the change, and what the changed fields were before it.
    data          json not null,
    before        json,
    document_bytes integer not null generated always as
        (octet_length(data::text) + coalesce(octet_length(before::text), 0)) stored,
    user_id       text,
    turn_id       text not null,
    cause         text,
    depth         smallint not null default 0,
    at            timestamptz not null,
    primary key (tenant_id, collection_no, record_id, change_id)
) partition by range (change_id);
create table record_changes_default partition of record_changes default;

-- The next number of each AUTO_NUMBER field; writers take numbers in blocks.
create table record_numbers (
    tenant_id     integer not null,
    collection_no integer not null,
    field         text not null collate "C",
    next_number   bigint not null,
    primary key (tenant_id, collection_no, field)
);

-- Keys that allowed everything there was go on allowing everything.
update api_keys
   set permissions = permissions
       || '{collections:read,collections:write,records:read,records:write}'
 where permissions @> '{waits:read,waits:write,callbacks:write,inbox:read,inbox:write}'
   and permissions @> '{dead_letters:read,dead_letters:write,kafka:read,gathers:read,gathers:write}'
   and permissions @> '{resources:read,resources:write,events:read,events:write}'
   and permissions @> '{event_types:read,event_types:write,subscriptions:read}'
   and permissions @> '{subscriptions:write,dispatch:read,dispatch:write,metrics:read,keys:write}'
   and not permissions @> '{records:write}';

-- How rows travel in a flush of transactions; `tx` is the number of the transaction within it.
create type record_guard as (
    tx            integer,
    tenant_id     integer,
    collection_no integer,
    record_id     text,
    seen          integer,
    -- The revision that was read.
    revision      integer
);
create type definition_guard as (
    tx            integer,
    tenant_id     integer,
    collection_no integer,
    seen          integer
);
create type new_record as (
    tx            integer,
    -- Whether the transaction is lost, quietly, if the record exists.
    if_absent     boolean,
    tenant_id     integer,
    collection_no integer,
    record_id     text,
    version       integer,
    data          jsonb,
    indexed_1     text,
    indexed_2     text,
    indexed_3     text,
    created_at    double precision,
    updated_at    double precision,
    created_by    text,
    updated_by    text,
    deleted_at    double precision,
    recent_turns  bytea
);
create type saved_record as (
    tx            integer,
    tenant_id     integer,
    collection_no integer,
    record_id     text,
    seen          integer,
    -- The revision that was read.
    revision      integer,
    version       integer,
    data          jsonb,
    indexed_1     text,
    indexed_2     text,
    indexed_3     text,
    updated_at    double precision,
    updated_by    text,
    deleted_at    double precision,
    recent_turns  bytea
);
create type saved_unique_value as (
    tx            integer,
    tenant_id     integer,
    collection_no integer,
    field         text,
    value_hash    bytea,
    -- Which record had the value, and which has it now; null for none.
    seen          text,
    record_id     text
);
create type new_record_change as (
    tx            integer,
    tenant_id     integer,
    collection_no integer,
    record_id     text,
    change_id     text,
    version       integer,
    kind          text,
    data          json,
    before        json,
    user_id       text,
    turn_id       text,
    cause         text,
    depth         smallint,
    at            double precision
);

-- Changes to publish to Kafka, written together with the change. A row leaves when the broker has
-- confirmed it.
create table change_outbox (
    outbox_id     bigint generated always as identity primary key,
    tenant_id     integer not null,
    collection_no integer not null,
    record_id     text not null collate "C",
    change_id     text not null collate "C",
    topic         text not null,
    created_at    timestamptz not null default now()
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 2);

-- Changes that subscriptions follow, written together with the change. A row leaves when its event
-- is stored. By tenant, so that none waits for the backlog of another.
create table event_outbox (
    tenant_id     integer not null,
    outbox_id     bigint generated always as identity,
    collection_no integer not null,
    record_id     text not null collate "C",
    change_id     text not null collate "C",
    created_at    timestamptz not null default now(),
    primary key (tenant_id, outbox_id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 2);

-- How these rows travel in a flush: those with a topic are for Kafka, the others for subscriptions.
create type outgoing_change as (
    tx            integer,
    tenant_id     integer,
    collection_no integer,
    record_id     text,
    change_id     text,
    topic         text
);
