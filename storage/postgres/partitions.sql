-- name: list_partitions
-- The partitions of a table with their bounds; the default partition has none.
select c.relname as name,
       substring(pg_get_expr(c.relpartbound, c.oid) from 'FROM \(''([^'']*)''\)') as first,
       substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \(''([^'']*)''\)') as end
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
 where i.inhparent = to_regclass($1)
 order by c.relname;
