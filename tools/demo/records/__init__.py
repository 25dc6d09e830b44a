"""`muster demo gather`: one request, three resources, and every way their answers can come."""
