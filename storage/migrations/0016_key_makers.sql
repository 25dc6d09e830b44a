-- transaction: none
-- Which key made a key: it ends with its maker, and is revoked with it. Null: made on the command
-- line, or before this was written down.
alter table api_keys add column if not exists created_by text;
create index concurrently if not exists api_keys_maker on api_keys (created_by)
 where created_by is not null;
