-- name: lock_migrations
-- Keeps two migrating processes apart until the connection closes.
select pg_advisory_lock($1);

-- name: create_migrations
create table if not exists schema_migrations (
    name       text primary key,
    applied_at timestamptz not null default now()
);

-- name: applied_migrations
select name from schema_migrations;

-- name: record_migration
insert into schema_migrations (name) values ($1);
