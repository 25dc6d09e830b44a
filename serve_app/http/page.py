"""One shape for every listing: `items`, `total` where it is counted, `nextCursor`."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

from pydantic import Field

from serve_app.http.models import View
from storage.postgres.bounded_scan import ScanPage

V = TypeVar("V", bound=View)
Row = TypeVar("Row")
Position = TypeVar("Position")


class Page(View, Generic[V]):
    """One page of a listing."""

    items: list[V]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return the title of the page's schema: PoolPage for a page of PoolView."""
        return f"{params[0].__name__.removesuffix('View')}Page"

    @classmethod
    def of_rows(
        cls, rows: Sequence[Row], limit: int, cursor: Callable[[Row], str], **more: Any
    ) -> Self:
        """Render rows that were read with this limit; `cursor` encodes the position after a row."""
        is_last = len(rows) < limit
        return cls.of({"items": rows, "next_cursor": None if is_last else cursor(rows[-1]), **more})

    @classmethod
    def of_scan(
        cls,
        found: ScanPage[Row, Position],
        limit: int,
        position: Callable[[Row], Position],
        encode: Callable[[Position], str] = str,
    ) -> Self:
        """Render what a bounded scan found; the next one begins after its last row or key."""
        is_full = len(found.items) == limit
        last = position(found.items[-1]) if is_full else found.scanned_to
        return cls.of({"items": found.items, "next_cursor": None if last is None else encode(last)})

    @classmethod
    def of_all(cls, rows: Sequence[object]) -> Self:
        """Render all rows of a listing that has one page."""
        return cls.of({"items": rows, "next_cursor": None})


class CountedPage(Page[V], Generic[V]):
    """One page of a listing, and how many rows all its pages have."""

    total: int
