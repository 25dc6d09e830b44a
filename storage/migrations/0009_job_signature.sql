-- How a job that somebody posted is signed; null: an EVENT's is signed as its subscription wants it.
alter table dispatch_jobs add column signature text
      check (signature in ('standard', 'classic'));
