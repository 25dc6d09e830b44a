"""Named SQL, read once from storage/sql. The name travels in a comment to pg_stat_activity."""

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load() -> dict[str, str]:
    """Every query of every file, by name."""
    queries: dict[str, str] = {}
    for file in sorted(files("storage").joinpath("sql").iterdir(), key=lambda f: f.name):
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in queries:
                raise ValueError(f"query {name} stands in two places")
            queries[name] = f"/* {name} */ " + body.strip().rstrip(";")
    return queries


Q = load()
