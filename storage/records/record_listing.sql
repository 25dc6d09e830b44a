-- Listings of records: templates, which storage/records/record_listing.py fills in for each column
-- that orders a listing, and both directions. A listing reads at most :scan rows in its order.

-- name: list_records_by_{name}
-- A page of records that pass a filter, in the order of a column. Documents beyond :max_bytes
-- together are left out.
-- Served by: {index}.
select record_id, version, sort_text,
       case when bytes <= :max_bytes or place = 1 then data::text end as data,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at, created_by, updated_by
  from (select *, row_number() over in_order as place,
               sum(data_bytes) over (in_order rows unbounded preceding) as bytes
          from (select *
                  from (select *, {column} as sort_text
                          from records
                         where tenant_id = :tenant and collection_no = :collection_no and {range}
                         order by {order}
                         limit :scan) as scanned
                 where deleted_at is null
                   and (:path::jsonpath is null
                        or jsonb_path_match(data, :path::jsonpath, :values::jsonb, true))
                   and (:created_from::float8 is null or created_at >= to_timestamp(:created_from))
                   and (:created_before::float8 is null
                        or created_at < to_timestamp(:created_before))
                   and (:updated_from::float8 is null or updated_at >= to_timestamp(:updated_from))
                   and (:updated_before::float8 is null
                        or updated_at < to_timestamp(:updated_before))
                 order by {order}
                 limit :limit) as found
        window in_order as (order by {order})) as measured
 order by {order};

-- name: scan_records_by_{name}
-- The last of :scan rows in the order of a column, and the next one.
-- Served by: {index}.
select record_id, {column} as sort_text
  from records
 where tenant_id = :tenant and collection_no = :collection_no and {range}
 order by {order}
offset :scan - 1
 limit 2;
