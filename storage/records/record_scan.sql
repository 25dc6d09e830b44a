-- name: scan_record_fields
-- The next $5 records after id $4, each with its fields $3: up to $6 bytes of documents together,
-- and one more.
-- Served by: records_pkey.
select record_id, version, indexed_1, indexed_2, indexed_3,
       (select jsonb_object_agg(name, data -> name)
          from unnest($3::text[]) as name
         where data ? name) as data
  from (select *, sum(data_bytes) over (order by record_id
                                         rows between unbounded preceding and 1 preceding)
                      as bytes_before
          from (select *
                  from records
                 where tenant_id = $1 and collection_no = $2 and record_id > $4
                   and deleted_at is null
                 order by record_id
                 limit $5) as found) as measured
 where coalesce(bytes_before, 0) < $6
 order by record_id;

-- name: write_indexed_columns
-- Fill the columns ($5 to $7) of records $3 that have the versions $4. Rows that are being written
-- are skipped, which also keeps this statement out of deadlocks. Returns the records that were filled.
-- Served by: records_pkey.
with asked as materialized (
    select $1::integer as tenant_id, $2::integer as collection_no, u.*
      from unnest($3::text[], $4::integer[], $5::text[], $6::text[], $7::text[])
        as u(record_id, version, indexed_1, indexed_2, indexed_3)
), free as (
    select r.record_id
      from asked a
      join records r
        on r.tenant_id = any(array[a.tenant_id])
       and r.collection_no = a.collection_no
       and r.record_id = a.record_id
       for update of r skip locked
)
update records r
   set indexed_1 = a.indexed_1, indexed_2 = a.indexed_2, indexed_3 = a.indexed_3
  from asked a
 where r.tenant_id = any(array[a.tenant_id])
   and r.collection_no = a.collection_no
   and r.record_id = a.record_id
   and r.version = a.version
   and a.record_id = any(array(select record_id from free))
returning r.record_id;
