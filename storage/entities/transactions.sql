-- `any(array[…])`: force look-ups by key; see storage/postgres/pool.py.

-- part: insert_records
insert into records
           (tenant_id, collection_no, record_id, version, data, indexed_1, indexed_2, indexed_3,
            created_at, updated_at, created_by, updated_by, deleted_at, recent_turns)
    select n.tenant_id, n.collection_no, n.record_id, n.version, n.data,
           n.indexed_1, n.indexed_2, n.indexed_3, to_timestamp(n.created_at),
           to_timestamp(n.updated_at), n.created_by, n.updated_by, to_timestamp(n.deleted_at),
           n.recent_turns
      from unnest($3::new_record[]) as n


-- name: flush_transactions
-- One flush of transactions, each of which is stored as a whole or not at all: records that must
-- be as they were read ($1), definitions by which was decided ($2), new records ($3),
-- changed records ($4), unique values ($5), change rows ($6) and whom to tell of these ($7). Returns
-- the transactions that were lost because another owner was first, or a record was encrypted anew.
-- They must be loaded and decided again.
--
-- Rows of transactions with more than one check are locked before anything is written ($1). At most
-- one new record of a transaction is inserted if absent. Any other insert that meets a row raises
-- an error, and the caller writes the transactions one by one.
-- Served by: records_pkey, collections_pkey, record_unique_values_pkey.
with locked as (
    select g.tx, r.version = g.seen and r.revision = g.revision as fits
      from unnest($1::record_guard[]) as g
      join records r
        on r.tenant_id = any(array[g.tenant_id])
       and r.collection_no = g.collection_no
       and r.record_id = g.record_id
       for update of r
), unfit as (
    (select g.tx from unnest($1::record_guard[]) as g
     except all
     select tx from locked where fits)
    union all
    select d.tx
      from unnest($2::definition_guard[]) as d
     where (select c.version
              from collections c
             where c.tenant_id = any(array[d.tenant_id])
               and c.collection_no = any(array[d.collection_no])
               and c.status = 'ACTIVE') is distinct from d.seen
), inserted as (
    {insert_records}
     where n.if_absent
       and (n.tx in (select tx from unfit)) is not true
        on conflict do nothing
    returning tenant_id, collection_no, record_id
), missed as (
    select tx from unfit
    union all
    select n.tx
      from unnest($3::new_record[]) as n
     where n.if_absent
       and ((n.tenant_id, n.collection_no, n.record_id)
            in (select tenant_id, collection_no, record_id from inserted)) is not true
), saved as (
    update records r
       set version = c.version,
           data = c.data,
           indexed_1 = c.indexed_1,
           indexed_2 = c.indexed_2,
           indexed_3 = c.indexed_3,
           updated_at = to_timestamp(c.updated_at),
           updated_by = c.updated_by,
           deleted_at = to_timestamp(c.deleted_at),
           recent_turns = c.recent_turns
      from unnest($4::saved_record[]) as c
     where r.tenant_id = any(array[c.tenant_id])
       and r.collection_no = c.collection_no
       and r.record_id = c.record_id
       and r.version = c.seen
       and r.revision = c.revision
       and (c.tx in (select tx from missed)) is not true
    returning c.tx
), lost as (
    select tx from missed
    union all
    (select c.tx from unnest($4::saved_record[]) as c
     except all
     select tx from saved)
), added as (
    {insert_records}
     where not n.if_absent
       and (n.tx in (select tx from lost)) is not true
), taken as (
    insert into record_unique_values (tenant_id, collection_no, field, value_hash, record_id)
    select v.tenant_id, v.collection_no, v.field, v.value_hash, v.record_id
      from unnest($5::saved_unique_value[]) as v
     where v.seen is null
       and (v.tx in (select tx from lost)) is not true
), moved as (
    update record_unique_values u
       set record_id = v.record_id
      from unnest($5::saved_unique_value[]) as v
     where u.tenant_id = any(array[v.tenant_id])
       and u.collection_no = v.collection_no
       and u.field = v.field
       and u.value_hash = v.value_hash
       and u.record_id = v.seen
       and v.record_id is not null
       and (v.tx in (select tx from lost)) is not true
), released as (
    delete from record_unique_values u
     using unnest($5::saved_unique_value[]) as v
     where u.tenant_id = any(array[v.tenant_id])
       and u.collection_no = v.collection_no
       and u.field = v.field
       and u.value_hash = v.value_hash
       and u.record_id = v.seen
       and v.record_id is null
       and (v.tx in (select tx from lost)) is not true
), changed as (
    insert into record_changes
           (tenant_id, collection_no, record_id, change_id, version, kind, data, before, user_id,
            turn_id, cause, depth, at)
    select c.tenant_id, c.collection_no, c.record_id, c.change_id, c.version, c.kind, c.data,
           c.before, c.user_id, c.turn_id, c.cause, c.depth, to_timestamp(c.at)
      from unnest($6::new_record_change[]) as c
     where (c.tx in (select tx from lost)) is not true
), published as (
    insert into change_outbox (tenant_id, collection_no, record_id, change_id, topic)
    select o.tenant_id, o.collection_no, o.record_id, o.change_id, o.topic
      from unnest($7::outgoing_change[]) with ordinality as o
     where o.topic is not null
       and (o.tx in (select tx from lost)) is not true
     order by o.ordinality
), dispatched as (
    insert into event_outbox (tenant_id, collection_no, record_id, change_id)
    select o.tenant_id, o.collection_no, o.record_id, o.change_id
      from unnest($7::outgoing_change[]) with ordinality as o
     where o.topic is null
       and (o.tx in (select tx from lost)) is not true
     order by o.ordinality
)
select distinct tx from lost;

-- name: load_records
-- The rows of these records. Documents beyond $4 bytes together, in the order of the arguments, are
-- left out.
-- Served by: records_pkey.
select tenant_id, collection_no, record_id, version, revision,
       case when bytes <= $4 then data end as data, indexed_1, indexed_2, indexed_3,
       extract(epoch from created_at)::float8 as created_at,
       extract(epoch from updated_at)::float8 as updated_at, created_by, updated_by,
       extract(epoch from deleted_at)::float8 as deleted_at, recent_turns
  from (select r.*, sum(r.data_bytes) over (order by asked.place rows unbounded preceding) as bytes
          from unnest($1::integer[], $2::integer[], $3::text[]) with ordinality
               as asked(tenant_id, collection_no, record_id, place)
          join records r
            on r.tenant_id = any(array[asked.tenant_id])
           and r.collection_no = asked.collection_no
           and r.record_id = asked.record_id) as found;

-- name: load_record_turns
-- Which of these messages ($4) have changed these records, and to which version. Looks at changes
-- from the id $5 on, at most the last $6 of each record.
-- Served by: record_changes_pkey.
select asked.tenant_id, asked.collection_no, asked.record_id, asked.turn_id, made.version
  from unnest($1::integer[], $2::integer[], $3::text[], $4::text[])
       as asked(tenant_id, collection_no, record_id, turn_id)
 cross join lateral (
       select near.version
         from (select c.turn_id, c.version
                 from record_changes c
                where c.tenant_id = asked.tenant_id
                  and c.collection_no = asked.collection_no
                  and c.record_id = asked.record_id
                  and c.change_id >= $5
                order by c.change_id desc
                limit $6) as near
        where near.turn_id = asked.turn_id
        limit 1) as made;

-- name: load_unique_values
-- Which records have these values. Served by: record_unique_values_pkey.
select u.tenant_id, u.collection_no, u.field, u.value_hash, u.record_id
  from unnest($1::integer[], $2::integer[], $3::text[], $4::bytea[])
       as asked(tenant_id, collection_no, field, value_hash)
  join record_unique_values u
    on u.tenant_id = any(array[asked.tenant_id])
   and u.collection_no = asked.collection_no
   and u.field = asked.field
   and u.value_hash = asked.value_hash;

-- name: load_collections
-- These collections, as transitions read them; $1 tenants, $2 numbers.
-- Served by: collections_pkey.
select c.*
  from unnest($1::integer[], $2::integer[]) as asked(tenant_id, collection_no)
 cross join lateral (
       select tenant_id, collection_no, collection_id, name, definition,
              status = 'ACTIVE' as is_active
         from collections
        where tenant_id = any(array[asked.tenant_id])
          and collection_no = any(array[asked.collection_no])
       offset 0) as c;
