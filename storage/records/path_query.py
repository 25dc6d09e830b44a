"""Follows data paths in Postgres: one statement for all records, paths and tenants of a batch."""

from collections.abc import Iterable
from typing import Any

import msgspec

from core.records.path_batch import PathBatch, PathRow
from core.shared.errors import InvalidError, UnavailableError
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

PATH_QUERY_SECONDS = 2.0
MAX_VALUE_BYTES = 1_048_576
"""Of all values of a query: they are decoded, and encoded again in an answer, in one go."""


async def follow_paths(
    pool: Pool, batch: PathBatch, *, every_record: bool = False
) -> list[PathRow]:
    """Return the values at the ends of all paths; with `every_record`, all records on the way.

    The connection should plan each time: a plan for any number of paths compares all with all.

    Raises:
        UnavailableError: It took too long.
        InvalidError: The values are too large together.
    """
    starts = batch.starts
    if not starts:
        return []
    arguments = (
        range(len(starts)), *_columns(starts, 4), *_columns(batch.edges, 5),
        *_columns(batch.terminals, 2), every_record, MAX_VALUE_BYTES,
    )  # fmt: skip
    try:
        found = await pool.fetch(Q["follow_paths"], *arguments, timeout=PATH_QUERY_SECONDS)
    except TimeoutError:
        raise UnavailableError(
            f"following the data paths took longer than {PATH_QUERY_SECONDS:g} s: ask for fewer "
            "paths or records at once"
        ) from None
    if found and found[-1]["bytes"] > MAX_VALUE_BYTES:
        raise InvalidError(
            "body",
            f"data paths to fewer or shorter values: these have more than {MAX_VALUE_BYTES:,} "
            "bytes together",
        )
    decode = msgspec.json.decode
    return [
        PathRow(start, node, record_id, version, field, None if value is None else decode(value))
        for start, node, record_id, version, field, value, _ in found
    ]


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[tuple[Any, ...]]:
    """Return rows as columns, which the driver encodes faster; none is `width` empty columns."""
    return list(zip(*rows, strict=True)) or [()] * width
