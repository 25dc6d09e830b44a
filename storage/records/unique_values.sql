-- name: add_unique_values
-- Fields $3, hashes $4 and records $5 of a collection; a value that a record has stays its own.
-- Served by: record_unique_values_pkey.
insert into record_unique_values (tenant_id, collection_no, field, value_hash, record_id)
select $1, $2, u.field, u.value_hash, u.record_id
  from unnest($3::text[], $4::bytea[], $5::text[]) as u(field, value_hash, record_id)
 order by u.field, u.value_hash
    on conflict do nothing;

-- name: unique_values_of_others
-- Which of the fields $3 and hashes $4 of records $5 another record has.
-- Served by: record_unique_values_pkey.
select u.field, u.value_hash, u.record_id
  from unnest($3::text[], $4::bytea[], $5::text[]) as u(field, value_hash, record_id)
 where not exists (select from record_unique_values v
                    where v.tenant_id = $1 and v.collection_no = $2
                      and v.field = u.field and v.value_hash = u.value_hash
                      and v.record_id = u.record_id
                   offset 0);

-- name: forget_unique_values
-- Delete the values of fields other than $3.
-- Served by: record_unique_values_pkey.
delete from record_unique_values
 where tenant_id = $1 and collection_no = $2 and field <> all($3::text[]);

-- name: drop_unique_values
-- Delete the values of fields $3.
-- Served by: record_unique_values_pkey.
delete from record_unique_values
 where tenant_id = $1 and collection_no = $2 and field = any($3::text[]);
