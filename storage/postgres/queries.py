"""Named SQL, read once from the files beside the modules that run it."""

import re
from importlib.resources import files
from pathlib import Path

_PART = re.compile(r"^-- part: (\w+)\s*\n(.*?)\n(?=\n)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(package: str) -> dict[str, str]:
    """Return every query below a package by name; the name also appears in pg_stat_activity."""
    queries: dict[str, str] = {}
    for file in sql_files(package):
        parts = _NAME.split(read(file))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in queries:
                raise ValueError(f"{file}: query {name} is defined twice")
            queries[name] = f"/* {name} */ " + body.strip().rstrip(";")
    return queries


def read(file: Path) -> str:
    """Return a file of queries, with each `{part}` replaced by the lines below `-- part: name`."""
    text = file.read_text(encoding="utf-8")
    for name, lines in _PART.findall(text):
        text = text.replace(f"{{{name}}}", lines)
    return _PART.sub("", text)


def sql_files(package: str) -> list[Path]:
    """Return the files with named queries below a package, without its migrations."""
    folder = Path(str(files(package)))
    return sorted(file for file in folder.rglob("*.sql") if file.parent.name != "migrations")


Q = load("storage")
