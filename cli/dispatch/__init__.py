"""Commands about subscriptions, pools, jobs, message groups, warnings and breakers."""
