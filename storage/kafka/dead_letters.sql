-- `any(array(…))`: force look-ups by key; see storage/postgres/pool.py.

-- name: add_dead_letters
-- Store Kafka messages that could not be handled. One that fails again counts its attempts. Another
-- message at the same position, of a topic that was deleted and made again, replaces the first.
insert into dead_letters
       (tenant_id, topic, kafka_partition, kafka_offset, record_key, headers, payload, error)
select l.tenant_id, l.topic, l.kafka_partition, l.kafka_offset, l.record_key, l.headers, l.payload,
       l.error
  from unnest($1::dead_letter[]) as l
    on conflict (topic, kafka_partition, kafka_offset, tenant_id) do update
   set error = excluded.error,
       attempts = case when dead_letters.payload is distinct from excluded.payload then 1
                       else dead_letters.attempts + 1 end,
       failed_at = now(),
       redriven_at = null,
       record_key = excluded.record_key,
       headers = excluded.headers,
       payload = excluded.payload
 where dead_letters.redriven_at is null
    or dead_letters.payload is distinct from excluded.payload;

-- name: dead_letter_scan_back
-- The limits of one bounded scan of a tenant's dead letters before $2, newest first: the last of $3
-- that it reads, and the next one.
-- Served by: dead_letters_recent.
select letter_id
  from dead_letters
 where tenant_id = $1 and ($2::bigint is null or letter_id < $2)
 order by letter_id desc
offset $3
 limit 2;

-- name: list_dead_letters
-- A page of a tenant's dead letters, newest first: open ones, or ($4) redriven ones. Null filters
-- match all. No index serves the filters, so the caller bounds the scan by $7.
-- Served by: dead_letters_recent.
select letter_id, topic, kafka_partition as partition, kafka_offset as offset,
       octet_length(payload) as size, error, attempts,
       extract(epoch from failed_at)::float8 as failed_at,
       extract(epoch from redriven_at)::float8 as redriven_at
  from dead_letters
 where tenant_id = $1
   and ($2::text is null or topic = $2)
   and ($3::text is null or position(lower($3) in lower(error)) > 0)
   and $4::boolean = (redriven_at is not null)
   and ($5::bigint is null or letter_id < $5)
   and letter_id >= $7
 order by letter_id desc
 limit $6;

-- name: dead_letter_scan_ahead
-- The limits of one bounded scan of a tenant's dead letters after $2, oldest first: the last of $3
-- that it reads, and the next one.
-- Served by: dead_letters_recent.
select letter_id
  from dead_letters
 where tenant_id = $1 and letter_id > $2
 order by letter_id
offset $3
 limit 2;

-- name: next_dead_letters
-- The next open dead letters to redrive, oldest first, as on their topics. No index serves the
-- filters, so the caller bounds the scan by $6.
-- Served by: dead_letters_recent.
select letter_id, coalesce(octet_length(payload), 0) as size
  from dead_letters
 where tenant_id = $1
   and redriven_at is null
   and ($2::text is null or topic = $2)
   and ($3::text is null or position(lower($3) in lower(error)) > 0)
   and letter_id > $4
   and ($6::bigint is null or letter_id <= $6)
 order by letter_id
 limit $5;

-- name: count_next_dead_letters
-- How many open dead letters there are among the $5 that come after $4.
-- Served by: dead_letters_recent.
select count(*)
  from (select topic, error, redriven_at
          from dead_letters
         where tenant_id = $1 and letter_id > $4
         order by letter_id
         limit $5) as near
 where redriven_at is null
   and ($2::text is null or topic = $2)
   and ($3::text is null or position(lower($3) in lower(error)) > 0);

-- name: dead_letter_sizes
-- The sizes of these dead letters, redriven or not.
-- Served by: dead_letters_pkey.
select letter_id, coalesce(octet_length(payload), 0) as size
  from dead_letters
 where tenant_id = $1 and letter_id = any($2::bigint[])
 order by letter_id;

-- name: read_dead_letters
-- These dead letters with their messages.
select letter_id, topic, kafka_partition as partition, kafka_offset as offset,
       record_key as key, headers, payload as value, coalesce(octet_length(payload), 0) as size,
       error, attempts,
       extract(epoch from failed_at)::float8 as failed_at,
       extract(epoch from redriven_at)::float8 as redriven_at
  from dead_letters
 where tenant_id = $1 and letter_id = any($2::bigint[])
 order by letter_id;

-- name: mark_dead_letters_redriven
-- Mark dead letters as redriven.
update dead_letters set redriven_at = now()
 where tenant_id = $1 and letter_id = any($2::bigint[]) and redriven_at is null;

-- name: mark_dead_letters_failed
-- Store that redriving failed.
update dead_letters d
   set error = f.error, attempts = d.attempts + 1, failed_at = now()
  from unnest($2::bigint[], $3::text[]) as f(letter_id, error)
 where d.tenant_id = $1 and d.letter_id = f.letter_id and d.redriven_at is null;

-- name: delete_dead_letter
-- Delete one dead letter.
delete from dead_letters where tenant_id = $1 and letter_id = $2 returning letter_id;

-- name: forget_dead_letters
-- Delete a batch that was redriven, or last failed, $1 seconds ago.
-- Served by: dead_letters_age.
delete from dead_letters
 where ctid = any(array(
       select ctid from dead_letters
        where coalesce(redriven_at, failed_at) < now() - $1 * interval '1 second'
        order by coalesce(redriven_at, failed_at)
        limit $2))
   and coalesce(redriven_at, failed_at) < now() - $1 * interval '1 second'
returning letter_id;

-- name: count_dead_letters
-- How many of a tenant's latest $2 dead letters are open, by topic.
-- Served by: dead_letters_recent.
select topic, count(*) as letters
  from (select topic, redriven_at
          from dead_letters
         where tenant_id = $1
         order by letter_id desc
         limit $2) as latest
 where redriven_at is null
 group by topic
 order by topic;
