-- name: lease_id_maker
-- Lease a number to $1, who makes ids with it, for $2 seconds: the one that has been free longest.
-- Gives none if somebody else took that one at the same time.
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
-- The number $1 is $2's for $3 seconds from now, if it is $2's at all.
-- Served by: id_maker_leases_pkey.
update id_maker_leases
   set leased_until = now() + $3::float8 * interval '1 second'
 where maker_no = $1 and holder = $2
returning maker_no;
