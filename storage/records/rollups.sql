-- part: details
select count(*) as records,
       sum(number)::text as sum,
       avg(number)::text as avg,
       coalesce(min(number)::text, to_json(min(text))::text) as min,
       coalesce(max(number)::text, to_json(max(text))::text) as max
  from (select case jsonb_typeof(data -> $4) when 'number' then (data -> $4)::numeric end as number,
               case jsonb_typeof(data -> $4) when 'string' then data ->> $4 end collate "C" as text
          from records
         where tenant_id = $1 and collection_no = $2 and deleted_at is null

-- part: some
         limit $5) as found

-- name: sum_up_by_1
-- What the records of collection $2 that lead to $3 have in field $4; of $5 records at most.
-- Served by: records_indexed_1.
{details}
           and indexed_1 = $3
{some};

-- name: sum_up_by_2
-- As sum_up_by_1, by another column.
-- Served by: records_indexed_2.
{details}
           and indexed_2 = $3
{some};

-- name: sum_up_by_3
-- As sum_up_by_1, by another column.
-- Served by: records_indexed_3.
{details}
           and indexed_3 = $3
{some};
