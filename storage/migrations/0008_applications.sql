-- Subscriptions and pools that an application declares as a whole, and may take away again.
alter table subscriptions add column application text;
alter table dispatch_pools add column application text;
