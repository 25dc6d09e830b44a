-- Whose client a job is for, as its event or its creator says; and the schema that its creator holds
-- its payload against.
alter table dispatch_jobs add column client_id text, add column schema_id text;
alter type event_job add attribute client_id text;
