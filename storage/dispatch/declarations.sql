-- name: application_pools
-- The pools that an application declared.
-- Served by: dispatch_pools_tenant_id_code_key.
select code from dispatch_pools
 where tenant_id = $1 and application = $2 and status <> 'ARCHIVED'
 order by code;
