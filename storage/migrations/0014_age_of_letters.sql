-- The sweeper asks every few seconds which dead letters are past their time, and nearly always none
-- is: without this it reads all of them to find that out.
create index dead_letters_age on dead_letters ((coalesce(redriven_at, failed_at)));
