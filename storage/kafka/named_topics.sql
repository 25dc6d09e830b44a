-- name: name_topics
-- Store that waits of a tenant name these topics until $3.
insert into wait_topics (tenant_id, topic, last_deadline)
select $1, t.topic, to_timestamp($3)
  from unnest($2::text[]) as t(topic)
    on conflict (topic, tenant_id) do update
   set last_deadline = greatest(wait_topics.last_deadline, excluded.last_deadline);

-- name: named_topics
-- The topics that waits name, with the tenants that do.
select t.topic, n.slug
  from wait_topics t
  join tenants n using (tenant_id)
 where t.last_deadline > now() - interval '1 day'
 order by t.topic, n.slug;

-- name: topics_named_by
-- The topics that waits of one tenant name.
select topic
  from wait_topics
 where tenant_id = $1 and last_deadline > now() - interval '1 day'
 order by topic
 limit $2;

-- name: forget_topics
-- Delete topics that no wait has named for $1 seconds.
delete from wait_topics where last_deadline < now() - $1 * interval '1 second' - interval '1 day';
