-- name: notify_change
-- Tell every process that listens, once this transaction is committed, what has changed.
select pg_notify('muster_changes', $1);

-- name: hold_tenant
-- Nobody else who asks for this goes on before this transaction ends.
-- Served by: tenants_pkey.
select tenant_id from tenants where tenant_id = $1 for no key update;
