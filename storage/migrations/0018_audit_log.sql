-- Who changed keys and secrets, and when. It outlives the processes' logs.
create table audit_log (
    audit_id  bigint generated always as identity primary key,
    tenant_id integer not null,
    at        timestamptz not null default now(),
    actor     text not null,
    action    text not null,
    object    text not null
);
create index audit_log_tenant on audit_log (tenant_id, audit_id);
create index audit_log_age on audit_log (at);

-- Keys that may manage keys may read what was done with them.
update api_keys
   set permissions = permissions || '{audit:read}'
 where permissions @> '{keys:write}' and not permissions @> '{audit:read}';
