-- part: record
select tenant_id, collection_no, record_id, version, data::text as data,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at, created_by, updated_by

-- name: read_record
-- Served by: records_pkey.
{record}
  from records
 where tenant_id = $1 and collection_no = $2 and record_id = $3 and deleted_at is null;

-- name: read_record_version
-- A version of a record, as its change left it.
-- Served by: record_changes_pkey.
select change_id, version, kind, data::text as data, before::text as before, user_id, turn_id,
       extract(epoch from at)::float8 as at
  from record_changes
 where tenant_id = $1 and collection_no = $2 and record_id = $3 and version = $4;

-- name: list_record_changes
-- The changes of a record before $4, the latest first. Documents beyond $6 bytes together are left
-- out.
-- Served by: record_changes_pkey.
select change_id, version, kind, user_id, turn_id,
       case when bytes <= $6 or place = 1 then data::text end as data,
       case when bytes <= $6 or place = 1 then before::text end as before,
       extract(epoch from at)::float8 as at
  from (select *, row_number() over latest as place,
               sum(document_bytes) over (latest rows unbounded preceding) as bytes
          from (select *
                  from record_changes
                 where tenant_id = $1 and collection_no = $2 and record_id = $3 and change_id < $4
                 order by change_id desc
                 limit $5) as found
        window latest as (order by change_id desc)) as measured
 order by change_id desc;

-- part: masters
select master.id as master_id, detail.record_id
  from unnest($3::text[]) as master (id)
 cross join lateral (
       select record_id
         from records
        where tenant_id = $1 and collection_no = $2 and deleted_at is null
          and record_id <> all ($4::text[])

-- part: some_of_each
        limit $5) as detail

-- name: find_details_by_1
-- The records of collection $2 that belong to one of the masters $3, but not those of $4; at most $5
-- of each master.
-- Served by: records_indexed_1.
{masters}
          and indexed_1 = master.id
{some_of_each};

-- name: find_details_by_2
-- As find_details_by_1, by another column.
-- Served by: records_indexed_2.
{masters}
          and indexed_2 = master.id
{some_of_each};

-- name: find_details_by_3
-- As find_details_by_1, by another column.
-- Served by: records_indexed_3.
{masters}
          and indexed_3 = master.id
{some_of_each};

-- name: lease_auto_numbers
-- Take $4 numbers of a field; returns the first of them. Numbers of a write that fails are not used.
-- Served by: record_numbers_pkey.
insert into record_numbers as n (tenant_id, collection_no, field, next_number)
values ($1, $2, $3, 1 + $4::bigint)
    on conflict (tenant_id, collection_no, field)
    do update set next_number = n.next_number + $4::bigint
returning next_number - $4::bigint;
