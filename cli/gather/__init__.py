"""`muster gather`: one question to many, and their answers."""
