"""`muster demo`: correlations that complete, time out and refuse, before your eyes."""
