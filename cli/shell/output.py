"""Tables by columns, and pairs of names and values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.shell.client import Document
from cli.shell.formats import Format, RightAligned, dim, text


@dataclass(frozen=True, slots=True)
class Column:
    """A title, and how its cell is made of one field or, without a field, of the document."""

    title: str
    format: Format
    field: str | None = None

    def cell(self, document: Document) -> Text:
        shown = self.format(document if self.field is None else document.get(self.field))
        return Text(shown) if isinstance(shown, str) else shown  # brackets are no markup


Columns = tuple[Column, ...]
ColumnSpec = str | tuple[str, str] | tuple[str, Format] | tuple[str, str, Format]


def columns(*specs: ColumnSpec) -> Columns:
    """Declare columns, each by one of four forms.

    `"code"` shows the field of that name; `("to", "target")` gives the field another title;
    `("per minute", "rateLimit", number)` also formats it; `("waiting", function)` calls the
    function with the whole document.
    """
    return tuple(_column(spec) for spec in specs)


def table(shown: Columns, items: Iterable[Document]) -> Table:
    """Make one row of each item."""
    made = Table(box=None, pad_edge=False, header_style="dim")
    for column in shown:
        is_right = isinstance(column.format, RightAligned)
        made.add_column(column.title, justify="right" if is_right else "left", overflow="fold")
    for item in items:
        made.add_row(*(column.cell(item) for column in shown))
    return made


def table_or(shown: Columns, items: Sequence[Document], nothing: str) -> RenderableType:
    """Make a table, or say that there is nothing to show."""
    return table(shown, items) if items else dim(nothing)


def pairs(shown: Columns, document: Document) -> Table:
    """Make one line of each column; those without a value are left out."""
    return pairs_table([(column.title, column.cell(document)) for column in shown])


def pairs_table(rows: Iterable[tuple[str, Text]]) -> Table:
    """Show names and values, one pair on a line; empty values are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        if len(value):
            made.add_row(name, value)
    return made


def sections(*parts: RenderableType) -> Group:
    """Show parts below each other with a blank line between them."""
    spaced = [part for each in parts for part in (Text(""), each)]
    return Group(*spaced[1:])


def first_rows(shown: Columns, items: Sequence[Document], most: int = 20) -> RenderableType:
    """Show the first items of many, and how many more there are."""
    rest = len(items) - most
    head = table(shown, items[:most])
    return Group(head, dim(f"… and {rest:,} more")) if rest > 0 else head


def _column(spec: ColumnSpec) -> Column:
    match spec:
        case str(field):
            return Column(field, text, field)
        case (title, str(field)):
            return Column(title, text, field)
        case (title, form):
            return Column(title, form)
        case (title, field, form):
            return Column(title, form, field)
