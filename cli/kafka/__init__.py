"""`muster kafka`: consumers, lag, dead letters, and a way to send messages."""
