"""Named SQL, read once from the files beside the modules that run it."""

import re
from importlib.resources import files
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(package: str) -> dict[str, str]:
    """Return every query below a package by name; the name also appears in pg_stat_activity."""
    queries: dict[str, str] = {}
    for file in sql_files(package):
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in queries:
                raise ValueError(f"{file}: query {name} is defined twice")
            queries[name] = f"/* {name} */ " + body.strip().rstrip(";")
    return queries


def sql_files(package: str) -> list[Path]:
    """Return the files with named queries below a package, without its migrations."""
    folder = Path(str(files(package)))
    return sorted(file for file in folder.rglob("*.sql") if file.parent.name != "migrations")


Q = load("storage")
