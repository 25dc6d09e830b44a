"""Tables in the house's look."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from cli.shell.context import CommandContext, out, print_json

Document = Mapping[str, Any]
PageView = Callable[[Sequence[Document]], RenderableType]


def plain_table(*titles: str, right: Iterable[int] = ()) -> Table:
    """Columns without a frame; those of `right` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    numbers = set(right)
    for index, title in enumerate(titles):
        justify = "right" if index in numbers else "left"
        table.add_column(title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def format_count(value: Any) -> str:
    """A count as people read it; nothing where there is none."""
    return "" if value is None else f"{value:,}"


def print_page(page: Document, view: PageView, shell: CommandContext, items: str = "items") -> None:
    """One page of a listing, and how to come to the next."""
    if shell.as_json:
        print_json(page)
        return
    out.print(view(page[items]))
    if page.get("nextCursor"):
        out.print(f"[dim]More: --cursor {page['nextCursor']}[/]", soft_wrap=True)
