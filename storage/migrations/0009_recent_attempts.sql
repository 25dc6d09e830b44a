-- What was sent lately: a pool that comes back keeps to the rate it had. Attempts are stored in the
-- order they were made, so that a summary of each range of pages is index enough.
create index dispatch_attempts_recent on dispatch_attempts using brin (attempted_at);
