-- name: notify_change
-- Notify every listening process when this transaction commits.
select pg_notify('muster_changes', $1);

-- name: hold_tenant
-- Block other transactions that take this lock until this one ends.
-- Served by: tenants_pkey.
select tenant_id from tenants where tenant_id = $1 for no key update;

-- name: lock_until_commit
-- Block other transactions that take this advisory lock until this one ends.
select pg_advisory_xact_lock($1);
