"""Searches a database for what must not be readable in it."""

import asyncpg

_COLUMNS = """
select table_name, column_name
  from information_schema.columns
 where table_schema = 'public'
   and data_type in ('text', 'bytea', 'json', 'jsonb', 'ARRAY', 'character varying')
 order by 1, 2
"""


async def find_plain(dsn: str, marker: str) -> list[str]:
    """The columns of any table that have the marker in them: as text, as bytes or in base64."""
    conn = await asyncpg.connect(dsn)
    try:
        found = []
        for table, column in await conn.fetch(_COLUMNS):
            # bytea as text is hexadecimal.
            query = f"""
                select exists (
                    select from {table}
                     where position($1 in {column}::text) > 0
                        or position(encode(convert_to($1, 'UTF8'), 'hex') in {column}::text) > 0
                        or position(encode(convert_to($1, 'UTF8'), 'base64') in {column}::text) > 0)
            """
            if await conn.fetchval(query, marker):
                found.append(f"{table}.{column}")
        return found
    finally:
        await conn.close()
