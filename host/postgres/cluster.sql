-- name: create_embedded_role
-- First start of the embedded server: what Muster may do there. The password is asked over TCP only.
create role muster login createdb in role pg_monitor password '{password}';

-- name: create_embedded_database
-- First start of the embedded server: owned by the role, so migrations need no superuser.
create database muster owner muster;
