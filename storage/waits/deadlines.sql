-- name: due_waits
-- A page of the waits whose next deadline lies in ($1, $2], soonest first, after the deadline $3
-- and the key $4. The key lets a page continue among waits that share a deadline.
-- Served by: execution_wait_states_due.
select tenant_id, execution_id, correlation_id, wait_key,
       extract(epoch from due_at)::float8 as due_at
  from execution_wait_states
 where due_at > to_timestamp($1)
   and due_at >= to_timestamp($3)
   and due_at <= to_timestamp($2)
   and (due_at > to_timestamp($3) or wait_key > $4)
   and status = 'waiting'
 order by due_at, wait_key
 limit $5;

-- name: read_mark
-- The time up to which every deadline has fired.
select extract(epoch from swept_until)::float8 from timer_marks where name = $1;

-- name: write_mark
-- Set the watermark. It moves back with the clock: deadlines before it are not read.
insert into timer_marks (name, swept_until)
values ($1, to_timestamp($2))
    on conflict (name) do update
   set swept_until = excluded.swept_until;

-- name: read_clock
-- The clock that all deadlines are compared with.
select extract(epoch from clock_timestamp())::float8;
