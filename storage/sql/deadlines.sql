-- name: due_waits
-- Waits whose next deadline lies in ($1, $2], soonest first.
-- Served by: execution_wait_states_due.
select tenant_id, execution_id, correlation_id, extract(epoch from due_at)::float8 as due_at
  from execution_wait_states
 where due_at > to_timestamp($1)
   and due_at <= to_timestamp($2)
   and status = 'waiting'
 order by due_at
 limit $3;

-- name: read_mark
-- How far everything has fired.
select extract(epoch from swept_until)::float8 from timer_marks where name = $1;

-- name: write_mark
-- Move the mark forward; it never goes back.
insert into timer_marks (name, swept_until)
values ($1, to_timestamp($2))
    on conflict (name) do update
   set swept_until = greatest(timer_marks.swept_until, excluded.swept_until);

-- name: read_clock
-- The clock that all deadlines are compared with.
select extract(epoch from clock_timestamp())::float8;
