-- A vacuum at full speed has a core to itself for half a second, every few seconds under load, and
-- the slowest of the callbacks wait for it. With pauses nobody notices; it may still change ten
-- thousand pages a second.
alter table execution_wait_states
      set (autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 400);
alter table outbox
      set (autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 400);
alter table dispatch_jobs
      set (autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 400);
