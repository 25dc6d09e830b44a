"""Named SQL, read once from the files beside the modules that run it."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

_PART = re.compile(r"^-- part: (\w+)\s*\n(.*?)\n(?=\n)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z]\w*)")
_COMMENT = re.compile(r"--.*")


class Queries(dict[str, str]):
    """SQL by name. A query has parameters either by number ($1) or by name (:code)."""

    def __init__(self) -> None:
        self._parameters: dict[str, list[str]] = {}

    def add(self, text: str) -> None:
        """Add the queries of a text; their names also appear in pg_stat_activity."""
        parts = _NAME.split(text)
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in self:
                raise ValueError(f"query {name} is defined twice")
            sql = f"/* {name} */ " + body.strip().rstrip(";")
            self._parameters[name] = list(dict.fromkeys(_PARAMETER.findall(_COMMENT.sub("", sql))))
            for number, parameter in enumerate(self._parameters[name], 1):
                sql = re.sub(rf"(?<!:):{parameter}\b", f"${number}", sql)
            self[name] = sql

    def fill(self, part: str, text: str) -> None:
        """Replace `{part}` in all queries; for a part that is not known when they are read."""
        for name, sql in self.items():
            self[name] = sql.replace(f"{{{part}}}", text)

    def arguments(self, name: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the values of a query's named parameters, in the order of their numbers."""
        return [values[parameter] for parameter in self._parameters[name]]


def load(package: str) -> Queries:
    """Return every query below a package by name."""
    queries = Queries()
    for file in sql_files(package):
        queries.add(read(file))
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
