-- What is open and ends by itself: a job behind one that blocks its group is never taken, so nobody
-- would notice that its time is over.
create index dispatch_jobs_expiry on dispatch_jobs (pool_no, expires_at)
 where standing in ('open', 'again') and expires_at is not null;
