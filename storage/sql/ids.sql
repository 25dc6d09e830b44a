-- name: draw_id_maker
-- A number for a process that makes ids. It is used again after 1023 others.
select nextval('id_makers');
