-- name: add_audit_entries
-- Log changes of one tenant's keys or secrets in the transaction of the change.
insert into audit_log (tenant_id, actor, action, object)
select $1, $2, $3, o.object
  from unnest($4::text[]) as o(object);

-- name: list_audit_entries
-- A page of a tenant's changes, newest first, before $2.
-- Served by: audit_log_tenant.
select audit_id, actor, action, object, extract(epoch from at)::float8 as at
  from audit_log
 where tenant_id = $1 and ($2::bigint is null or audit_id < $2)
 order by audit_id desc
 limit $3;

-- name: forget_audit_entries
-- Delete a batch that is older than $1 seconds.
-- Served by: audit_log_age.
delete from audit_log
 where ctid = any(array(
       select ctid from audit_log
        where at < now() - $1 * interval '1 second'
        order by at
        limit $2))
   and at < now() - $1 * interval '1 second'
returning audit_id;
