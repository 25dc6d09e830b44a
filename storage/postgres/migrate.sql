-- name: try_lock_migrations
-- Keeps two migrating processes apart until the connection closes.
select pg_try_advisory_lock($1);

-- name: create_migrations
create table if not exists schema_migrations (
    name       text primary key,
    applied_at timestamptz not null default now()
);

-- name: mark_migrations
-- How old code may be that works behind a migration: the number of its own newest one.
alter table schema_migrations add column if not exists compatible_from text;

-- name: applied_migrations
-- Without that column, too: a database may not have been migrated since there is one.
select name, to_jsonb(m) ->> 'compatible_from' as compatible_from
  from schema_migrations m;

-- name: record_migration
insert into schema_migrations (name, compatible_from) values ($1, $2);

-- name: find_invalid_index
-- An index of this name whose building was broken off.
select i.indexrelid::regclass::text
  from pg_index i
 where i.indexrelid = to_regclass($1) and not i.indisvalid;

-- name: longest_transactions
-- Who may hold what a migration waits for: of this database, those that have been in a transaction
-- longest.
select pid, application_name, state,
       extract(epoch from clock_timestamp() - xact_start)::float8 as seconds
  from pg_stat_activity
 where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
 order by xact_start
 limit 3;
