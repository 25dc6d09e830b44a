"""Record what this version sends, when it is released: then it is the one before the next."""

import asyncio
import json
import tempfile
from pathlib import Path

import asyncpg

from host.postgres import embedded
from storage.postgres.migrate import migrate
from tests.contract.previous_release import STATEMENTS, TYPES, all_queries, composite_types

HEAD = """\
-- The statements of the release before this one, as its code sends them. They must go on working on
-- the newest schema: the two run side by side while a cluster is upgraded.
-- Recorded by: python -m tests.contract.previous_release, at that release.
"""


async def _types(folder: Path) -> dict[str, list[str]]:
    server = embedded.start(folder, durable=False)
    try:
        await migrate(server.dsn)
        conn = await asyncpg.connect(server.dsn)
        try:
            return await composite_types(conn)
        finally:
            await conn.close()
    finally:
        embedded.stop(server, mode="immediate")


def main() -> None:
    """Write both files anew."""
    parts = [f"\n-- name: {name}\n{sql};\n" for name, sql in all_queries().items()]
    STATEMENTS.write_text(HEAD + "".join(parts), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        types = asyncio.run(_types(Path(folder)))
    TYPES.write_text(json.dumps(types, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
