"""Listings of records: filtered, in the order of their ids or of an indexed field."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from core.records.field import MAX_INDEXED
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

SCAN_ROWS = 20_000
"""The most rows that one page reads, however few of them pass its filter."""
PAGE_BYTES = 1024 * 1024
"""The most bytes of documents that one page has; one document is always there."""
_TEMPLATES = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")


class RecordPosition(NamedTuple):
    """A place in a listing: the text that it is sorted by, and the id of a record."""

    sort_text: str
    record_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records a listing has, and in which order; None leaves a condition off."""

    slot: int | None = None
    """The column of an indexed field that orders the listing, from 0; None: by id."""
    descending: bool = False
    low: str | None = None
    high: str | None = None
    """The bounds of that column, inclusive."""
    path: str | None = None
    """A JSON path that is true of the document."""
    values: str = "{}"
    """The variables of the path, as JSON."""
    created_from: float | None = None
    created_before: float | None = None
    updated_from: float | None = None
    updated_before: float | None = None

    @property
    def query(self) -> str:
        """Return the stem of the query that serves it."""
        column = "id" if self.slot is None else f"indexed_{self.slot + 1}"
        return f"{column}_desc" if self.descending else column


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """A stored record; its document is JSON."""

    record_id: str
    version: int
    data: str
    created_at: float
    updated_at: float
    created_by: str | None
    updated_by: str | None
    sort_text: str = ""

    @property
    def position(self) -> RecordPosition:
        return RecordPosition(self.sort_text, self.record_id)


async def page(
    pool: Pool,
    tenant: int,
    collection_no: int,
    chosen: RecordFilter,
    after: RecordPosition | None,
    limit: int,
) -> ScanPage[RecordRow, RecordPosition]:
    """Read the next records of a listing, within one bounded scan.

    `scanned_to` is where the next page begins.
    """
    place = {
        **asdict(chosen),
        "tenant": tenant,
        "collection_no": collection_no,
        "after_text": None if after is None else after.sort_text,
        "after_id": None if after is None else after.record_id,
        "scan": SCAN_ROWS,
        "limit": limit,
        "max_bytes": PAGE_BYTES,
    }
    found = await _fetch(pool, f"list_records_by_{chosen.query}", place)
    rows = [msgspec.convert(dict(row), RecordRow) for row in found if row["data"] is not None]
    if (rows and len(found) == limit) or len(rows) < len(found):
        return ScanPage(rows, rows[-1].position)
    ends = await _fetch(pool, f"scan_records_by_{chosen.query}", place)
    is_cut = len(ends) == 2
    return ScanPage(rows, RecordPosition(**ends[0]) if is_cut else None)


async def _fetch(pool: Pool, query: str, place: dict[str, Any]) -> Any:
    return await pool.fetch(Q[query], *Q.arguments(query, place))


def _variants() -> Iterator[dict[str, str]]:
    """Yield the parts of the queries for each column and direction."""
    for descending in (False, True):
        sign, order = ("<", " desc") if descending else (">", "")
        ending = "_desc" if descending else ""
        yield {
            "name": f"id{ending}",
            "index": "records_pkey",
            "column": "record_id",
            "range": f"(:after_id::text is null or record_id {sign} :after_id)",
            "order": f"record_id{order}",
        }
        for number in range(1, MAX_INDEXED + 1):
            column = f"indexed_{number}"
            yield {
                "name": f"{column}{ending}",
                "index": f"records_{column}",
                "column": column,
                "range": f"{column} is not null"
                f" and (:low::text is null or {column} >= :low)"
                f" and (:high::text is null or {column} <= :high)"
                " and (:after_id::text is null"
                f" or ({column}, record_id) {sign} (:after_text::text, :after_id))",
                "order": f"{column}{order}, record_id{order}",
            }


for _variant in _variants():
    Q.add(_TEMPLATES.format(**_variant))
