-- transaction: none
-- How many topics a tenant's waits name is counted whenever one is new.
create index concurrently if not exists wait_topics_tenant on wait_topics (tenant_id);
