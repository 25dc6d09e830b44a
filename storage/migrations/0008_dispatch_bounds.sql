-- Each group in its order, by what its jobs are: a group whose next jobs pass by what failed must not
-- be slower for each one that did. Only the first is written with every job.
drop index dispatch_jobs_group;
create index dispatch_jobs_group on dispatch_jobs
       (pool_no, tenant_id, message_group, sequence, position)
 where standing in ('open', 'again') and message_group is not null and mode <> 'IMMEDIATE';
create index dispatch_jobs_group_failed on dispatch_jobs
       (pool_no, tenant_id, message_group, sequence, position)
 where standing = 'error' and message_group is not null and mode <> 'IMMEDIATE';
-- What holds back those behind it.
create index dispatch_jobs_group_blocked on dispatch_jobs
       (pool_no, tenant_id, message_group, sequence, position)
 where standing = 'error' and message_group is not null and mode = 'BLOCK_ON_ERROR';
