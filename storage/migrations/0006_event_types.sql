-- What kinds of events there are.
create table event_types (
    tenant_id     integer not null references tenants,
    -- {application}:{subdomain}:{aggregate}:{event}; compared by bytes, so that pages go by it.
    code          text not null collate "C",
    event_type_id text not null,
    application   text not null,
    subdomain     text not null,
    aggregate     text not null,
    event         text not null,
    name          text not null,
    description   text,
    status        text not null default 'CURRENT' check (status in ('CURRENT', 'ARCHIVED')),
    source        text not null check (source in ('CODE', 'API', 'UI')),
    client_scoped boolean not null default false,
    validation    text not null default 'enforce' check (validation in ('enforce', 'warn', 'off')),
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    primary key (tenant_id, code),
    unique (tenant_id, event_type_id)
);

-- What the filters offer.
create index event_types_segments on event_types (tenant_id, application, subdomain, aggregate);

-- What the events of a type look like, version by version.
create table event_type_versions (
    tenant_id   integer not null,
    code        text not null collate "C",
    major       integer not null,
    minor       integer not null,
    status      text not null default 'FINALISING'
                check (status in ('FINALISING', 'CURRENT', 'DEPRECATED')),
    mime_type   text not null,
    schema_type text not null check (schema_type in ('JSON_SCHEMA', 'XSD', 'PROTO')),
    schema_text text not null,
    -- What was made of the text, where that is more than the text.
    compiled    bytea,
    -- Names the compiled form; the same form has the same.
    digest      bytea not null,
    -- How much work a byte of a payload can make; null if nobody knows a bound.
    weight      integer,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    primary key (tenant_id, code, major, minor),
    foreign key (tenant_id, code) references event_types on delete cascade
);

-- Schemas by themselves; versions may be made of them.
create table schemas (
    tenant_id     integer not null references tenants,
    schema_id     text not null collate "C",
    name          text not null,
    description   text,
    mime_type     text not null,
    schema_type   text not null check (schema_type in ('JSON_SCHEMA', 'XSD', 'PROTO')),
    content       text not null,
    event_type_id text,
    version       text,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    primary key (tenant_id, schema_id),
    foreign key (tenant_id, event_type_id) references event_types (tenant_id, event_type_id)
            on delete set null (event_type_id)
);

create index schemas_of_type on schemas (tenant_id, event_type_id) where event_type_id is not null;
