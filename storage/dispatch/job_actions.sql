-- name: requeue_jobs
-- Requeue jobs as if they were new, unless one is being sent or its pool is archived. An expired
-- job gets its whole time again. Returns each job that exists, with its earlier status.
-- Served by: dispatch_jobs_pkey, dispatch_pools_pkey.
with moved as (
    update dispatch_jobs j
       set status = 'PENDING',
           standing = 'again',
           attempt_count = 0,
           scheduled_for = null,
           expires_at = case when expires_at <= now() then now() + (expires_at - created_at)
                             else expires_at end,
           lease_until = null,
           owner = null,
           completed_at = null,
           last_error = null,
           ignored_at = null,
           updated_at = now()
     where tenant_id = $1
       and job_id = any($2::text[])
       and (status <> 'IN_PROGRESS' or lease_until is null or lease_until <= now())
       and exists (select from dispatch_pools p
                    where p.pool_no = j.pool_no and p.status <> 'ARCHIVED')
    returning job_id
)
select j.job_id, j.status, j.ignored_at is not null as ignored, m.job_id is not null as changed,
       j.pool_no, j.position, j.target_url, j.mode, j.message_group, j.sequence
  from dispatch_jobs j
  left join moved m using (job_id)
 where j.tenant_id = $1 and j.job_id = any($2::text[]);

-- name: settle_jobs
-- End jobs that are in one of the states $3 and not ignored: with the state $4, or (null) with the
-- present one; $5: ignore them. Returns each job that exists, with its earlier status.
-- Served by: dispatch_jobs_pkey.
with moved as (
    update dispatch_jobs
       set status = coalesce($4::text, status),
           standing = 'done',
           scheduled_for = null,
           completed_at = now(),
           ignored_at = case when $5 then now() end,
           updated_at = now()
     where tenant_id = $1
       and job_id = any($2::text[])
       and status = any($3::text[])
       and ignored_at is null
    returning job_id
)
select j.job_id, j.status, j.ignored_at is not null as ignored, m.job_id is not null as changed,
       j.pool_no, j.position, j.target_url, j.mode, j.message_group, j.sequence
  from dispatch_jobs j
  left join moved m using (job_id)
 where j.tenant_id = $1 and j.job_id = any($2::text[]);
