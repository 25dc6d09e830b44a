-- part: found_record
select record_id, version, data, created_at, updated_at, created_by, updated_by from records

-- name: follow_paths
-- Follows data paths from many records of many tenants at once. A row for each value at their ends,
-- and with $13 for each record on the way. Null, missing and deleted records end a path: no row.
-- `bytes` counts the values up to a row; those beyond $14 bytes are left out, and only counted.
-- Parallel arrays: $1 to $5 are the starts, $6 to $10 the edges, $11 and $12 the terminals. Nodes are
-- numbered across all trees. `offset 0` forces look-ups by the whole key; without it, a plan from a
-- time when the table was smaller reads all records of a collection for each root.
-- Served by: records_pkey.
with recursive
edges as materialized (
    select * from unnest($6::integer[], $7::integer[], $8::integer[], $9::text[], $10::integer[])
        as e (tenant_id, node, child, field, collection_no)
),
terminals as materialized (
    select * from unnest($11::integer[], $12::text[]) as t (node, field)
),
followed as (
    select s.start, s.node, s.tenant_id, r.*
      from unnest($1::integer[], $2::integer[], $3::integer[], $4::integer[], $5::text[])
        as s (start, node, tenant_id, collection_no, record_id)
     cross join lateral (
           {found_record}
            where tenant_id = s.tenant_id and collection_no = s.collection_no
              and record_id = s.record_id and deleted_at is null offset 0) r
     union all
    select f.start, e.child, f.tenant_id, r.*
      from followed f
      join edges e on e.node = f.node and e.tenant_id = f.tenant_id
     cross join lateral (
           {found_record}
            where tenant_id = e.tenant_id and collection_no = e.collection_no
              and record_id = f.data ->> e.field and deleted_at is null offset 0) r
),
found as (
    select f.start, f.node, f.record_id, f.version, t.field,
           (case t.field
                when '' then f.data || jsonb_build_object('id', f.record_id)
                when 'id' then to_jsonb(f.record_id)
                when 'version' then to_jsonb(f.version)
                when 'createdAt' then to_jsonb(to_char(f.created_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                when 'updatedAt' then to_jsonb(to_char(f.updated_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                when 'createdBy' then to_jsonb(f.created_by)
                when 'updatedBy' then to_jsonb(f.updated_by)
                else f.data -> t.field
            end)::text as value
      from followed f
      left join terminals t on t.node = f.node
     where $13 or t.node is not null
),
counted as (
    select *, coalesce(sum(octet_length(value)) over (rows unbounded preceding), 0) as bytes
      from found
)
select start, node, record_id, version, field, case when bytes <= $14 then value end as value, bytes
  from counted;
