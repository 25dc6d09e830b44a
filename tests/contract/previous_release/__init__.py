"""What the release before this one sends to Postgres: its statements, and the types it writes."""

import importlib
import json
import pkgutil
import re
from pathlib import Path

import asyncpg

import storage
from storage.postgres.queries import Q

FOLDER = Path(__file__).parent
STATEMENTS = FOLDER / "statements.sql"
TYPES = FOLDER / "types.json"

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_TYPES = """
select t.typname as name,
       array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) order by a.attnum)
           as attributes
  from pg_type t
  join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where t.typnamespace = 'public'::regnamespace
 group by t.typname
 order by t.typname
"""


def all_queries() -> dict[str, str]:
    """Return what this version sends; modules of tables add their queries when imported."""
    for module in pkgutil.walk_packages(storage.__path__, "storage."):
        importlib.import_module(module.name)
    return Q


def statements() -> dict[str, str]:
    """Read the recorded statements by name."""
    parts = _NAME.split(STATEMENTS.read_text(encoding="utf-8"))
    bodies = zip(parts[1::2], parts[2::2], strict=True)
    return {name: body.strip().rstrip(";") for name, body in bodies}


def types() -> dict[str, list[str]]:
    """Read the recorded composite types, each with its attributes in order."""
    recorded: dict[str, list[str]] = json.loads(TYPES.read_text(encoding="utf-8"))
    return recorded


async def composite_types(conn: asyncpg.Connection) -> dict[str, list[str]]:
    """Read the composite types of a database."""
    return {row["name"]: list(row["attributes"]) for row in await conn.fetch(_TYPES)}
