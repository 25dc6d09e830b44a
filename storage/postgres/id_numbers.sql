-- name: lease_id_maker
-- Lease the number that has been free longest to $1 for $2 seconds. Returns nothing if another
-- process takes it at the same time.
-- Served by: id_maker_leases_pkey.
insert into id_maker_leases (maker_no, holder, leased_until)
select n, $1, now() + $2::float8 * interval '1 second'
  from (select n,
               (select l.leased_until
                  from id_maker_leases l
                 where l.maker_no = n) as leased_until
          from generate_series(0, 1023) as n) as numbers
 where leased_until is null or leased_until < now()
 order by leased_until nulls first, random()
 limit 1
    on conflict (maker_no) do update
   set holder = excluded.holder,
       leased_until = excluded.leased_until
 where id_maker_leases.leased_until < now()
returning maker_no;

-- name: renew_id_maker
-- Extend the lease of number $1 for $3 seconds, if $2 holds it.
-- Served by: id_maker_leases_pkey.
update id_maker_leases
   set leased_until = now() + $3::float8 * interval '1 second'
 where maker_no = $1 and holder = $2
returning maker_no;
