-- name: try_lock_migrations
-- Keeps two migrating processes apart until the connection closes.
select pg_try_advisory_lock($1);

-- name: create_migrations
create table if not exists schema_migrations (
    name       text primary key,
    applied_at timestamptz not null default now()
);

-- name: mark_migrations
-- The number of the oldest schema whose code also runs on this one.
alter table schema_migrations add column if not exists compatible_from text;

-- name: applied_migrations
-- Also for databases that were last migrated before that column existed.
select name, to_jsonb(m) ->> 'compatible_from' as compatible_from
  from schema_migrations m;

-- name: record_migration
insert into schema_migrations (name, compatible_from) values ($1, $2);

-- name: find_invalid_index
-- An invalid index of this name: its build was interrupted.
select i.indexrelid::regclass::text
  from pg_index i
 where i.indexrelid = to_regclass($1) and not i.indisvalid;

-- name: longest_transactions
-- The oldest transactions of this database, which may hold the lock that a migration waits for.
select pid, application_name, state,
       extract(epoch from clock_timestamp() - xact_start)::float8 as seconds
  from pg_stat_activity
 where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
 order by xact_start
 limit 3;
