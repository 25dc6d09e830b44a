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

-- name: fill_unique_values
-- Store values as add_unique_values does, of records that have the versions $6 and that nobody holds;
-- returns these records. The revision of a record with a new value moves: who decided a change of it
-- before did not know that it has the value.
-- Served by: records_pkey, record_unique_values_pkey.
with asked as materialized (
    select $1::integer as tenant_id, $2::integer as collection_no, u.*
      from unnest($3::text[], $4::bytea[], $5::text[], $6::integer[])
        as u(field, value_hash, record_id, version)
), free as materialized (
    select r.record_id
      from asked a
      join records r
        on r.tenant_id = any(array[a.tenant_id])
       and r.collection_no = a.collection_no
       and r.record_id = a.record_id
     where r.version = a.version
       for update of r skip locked
), added as (
    insert into record_unique_values (tenant_id, collection_no, field, value_hash, record_id)
    select a.tenant_id, a.collection_no, a.field, a.value_hash, a.record_id
      from asked a
     where a.record_id = any(array(select record_id from free))
     order by a.field, a.value_hash
        on conflict do nothing
    returning record_id
), moved as (
    update records r
       set revision = r.revision + 1
     where r.tenant_id = $1 and r.collection_no = $2
       and r.record_id = any(array(select record_id from added))
)
select distinct record_id from free;

-- name: scan_unique_values
-- The next $5 values after field $3 and hash $4, each with what its record has in that field now.
-- Served by: record_unique_values_pkey, records_pkey.
select u.field, u.value_hash, u.record_id, r.version, r.value
  from (select field, value_hash, record_id
          from record_unique_values
         where tenant_id = $1 and collection_no = $2 and (field, value_hash) > ($3, $4::bytea)
         order by field, value_hash
         limit $5) as u
  left join lateral (
       select k.version, case when k.deleted_at is null then (k.data -> u.field)::text end as value
         from records k
        where k.tenant_id = any(array[$1::integer]) and k.collection_no = $2
          and k.record_id = u.record_id
       offset 0) as r on true
 order by u.field, u.value_hash;

-- name: drop_stale_values
-- Delete values (fields $3, hashes $4) that the records $5 do not have in their versions $6. Records
-- that somebody holds are left out; returns the others. Their revision moves, as in
-- fill_unique_values. A record without a version does not exist.
-- Served by: records_pkey, record_unique_values_pkey.
with asked as materialized (
    select $1::integer as tenant_id, $2::integer as collection_no, u.*
      from unnest($3::text[], $4::bytea[], $5::text[], $6::integer[])
        as u(field, value_hash, record_id, version)
), free as materialized (
    select r.record_id
      from asked a
      join records r
        on r.tenant_id = any(array[a.tenant_id])
       and r.collection_no = a.collection_no
       and r.record_id = a.record_id
     where r.version = a.version
       for update of r skip locked
), dropped as (
    delete from record_unique_values u
     using asked a
     where u.tenant_id = any(array[a.tenant_id])
       and u.collection_no = a.collection_no
       and u.field = a.field
       and u.value_hash = a.value_hash
       and u.record_id = a.record_id
       and (a.version is null or a.record_id = any(array(select record_id from free)))
    returning u.record_id
), moved as (
    update records r
       set revision = r.revision + 1
     where r.tenant_id = $1 and r.collection_no = $2
       and r.record_id = any(array(select record_id from dropped))
)
select record_id from free union select record_id from asked where version is null;
