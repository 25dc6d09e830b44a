-- name: raise_warning
-- Raise a warning; if the same one is open, increment its count.
-- Served by: dispatch_warnings_open.
insert into dispatch_warnings (tenant_id, category, severity, source, message)
values ($1, $2, $3, $4, $5)
    on conflict (tenant_id, category, source) where acknowledged_at is null do update
   set severity = excluded.severity,
       message = excluded.message,
       count = dispatch_warnings.count + 1,
       last_at = now()
returning warning_id;

-- name: list_warnings
-- A tenant's warnings, newest first: $2 only open ones, $3 of one severity, before $4.
-- Served by: dispatch_warnings_pkey.
select warning_id, category, severity, source, message, count,
       extract(epoch from first_at)::float8 as first_at,
       extract(epoch from last_at)::float8 as last_at,
       extract(epoch from acknowledged_at)::float8 as acknowledged_at, acknowledged_by
  from dispatch_warnings
 where tenant_id = $1
   and (not $2::boolean or acknowledged_at is null)
   and ($3::text is null or severity = $3)
   and ($4::bigint is null or warning_id < $4)
 order by warning_id desc
 limit $5;

-- name: count_recent_warnings
-- Count the open warnings of the last $2 seconds, of a tenant or (null) of all, above severity
-- INFO.
-- Served by: dispatch_warnings_open.
select tenant_id, count(*) as warnings
  from dispatch_warnings
 where ($1::integer is null or tenant_id = $1)
   and acknowledged_at is null
   and severity <> 'INFO'
   and last_at > now() - $2 * interval '1 second'
 group by tenant_id;

-- name: acknowledge_warning
-- Acknowledge a warning.
-- Served by: dispatch_warnings_pkey.
update dispatch_warnings
   set acknowledged_at = coalesce(acknowledged_at, now()),
       acknowledged_by = coalesce(acknowledged_by, $3)
 where warning_id = $2 and tenant_id = $1
returning warning_id, category, severity, source, message, count,
          extract(epoch from first_at)::float8 as first_at,
          extract(epoch from last_at)::float8 as last_at,
          extract(epoch from acknowledged_at)::float8 as acknowledged_at, acknowledged_by;

-- name: drop_warnings
-- Delete a tenant's warnings that were last raised more than $2 seconds ago; null: all.
-- Served by: dispatch_warnings_recent.
delete from dispatch_warnings
 where tenant_id = $1
   and ($2::float8 is null or last_at < now() - $2::float8 * interval '1 second')
returning warning_id;

-- name: acknowledge_old_warnings
-- Acknowledge warnings that have not been raised again for $1 seconds.
-- Served by: dispatch_warnings_open.
update dispatch_warnings
   set acknowledged_at = now(), acknowledged_by = 'muster'
 where acknowledged_at is null and last_at < now() - $1 * interval '1 second'
returning warning_id;

-- name: forget_warnings
-- Delete acknowledged warnings that have not been raised for $1 seconds.
delete from dispatch_warnings
 where acknowledged_at is not null and last_at < now() - $1 * interval '1 second'
returning warning_id;

-- name: count_open_warnings
-- How many warnings of a tenant are open, by severity.
-- Served by: dispatch_warnings_open.
select severity, count(*) as warnings
  from dispatch_warnings
 where tenant_id = $1 and acknowledged_at is null
 group by severity;
