-- What each tenant stored on each day. Counted by the processes that write, and added here about once
-- a second; nobody counts rows.
create table tenant_usage (
    tenant_id  integer not null,
    day        date not null,
    kind       text not null,
    row_count  bigint not null,
    byte_count bigint not null,
    primary key (tenant_id, day, kind)
) with (fillfactor = 50);
create index tenant_usage_day on tenant_usage (day);

-- Limits of one tenant that differ from those of all, by the names of core/shared/quotas.py; 0 is none.
alter table tenants add column quotas jsonb not null default '{}';
