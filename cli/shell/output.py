"""How documents are shown: tables by columns, pairs of names and values, moments and numbers."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.shell.durations import format_duration

Document = Mapping[str, Any]
Format = Callable[[Any], str | Text]
_ONE_LINE = 120
_SHORT_LINE = 60
_VERDICT_STYLES = {"matched": "bold green", "buffered": "bold cyan", "duplicate": "bold yellow"}
WAIT_STATUS_STYLES = {
    "waiting": "cyan",
    "completed": "green",
    "timeout": "red",
    "failed": "red",
    "cancelled": "yellow",
}


@dataclass(frozen=True, slots=True)
class RightAligned:
    """A format whose column is aligned to the right."""

    render: Format

    def __call__(self, value: Any) -> str | Text:
        return self.render(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A title, and how its cell is made of one field or, without a field, of the document."""

    title: str
    format: Format
    field: str | None = None

    def cell(self, document: Document) -> str | Text:
        return self.format(document if self.field is None else document.get(self.field))


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


def pairs(shown: Columns, document: Document) -> Table:
    """Make one line of each column; those without a value are left out."""
    return pairs_table([(column.title, column.cell(document)) for column in shown])


def pairs_table(rows: Iterable[tuple[str, str | Text]]) -> Table:
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


def text(value: Any) -> Text:
    """Show any value as it is, lists with commas."""
    match value:
        case None:
            return Text("")
        case bool():
            return Text("yes" if value else "no")
        case list() | tuple():
            return Text(", ".join(map(str, value)))
        case _:
            return Text(str(value))


def dim(value: str) -> Text:
    return Text(value, style="dim")


def styled(styles: Mapping[str, str], other: str = "") -> Format:
    """Colour a word by what it says."""

    def render(value: Any) -> Text:
        word = "" if value is None else str(value)
        return Text(word, style=styles.get(word, other))

    return render


def error(value: Any) -> Text:
    return Text(str(value or ""), style="red")


def short_line(value: Any) -> str:
    """Put a text on one line and cut it where a table would become too wide."""
    return _cut(" ".join(str(value or "").split()), _SHORT_LINE)


def one_line(value: Any) -> str:
    """Show JSON data on one line, cut at its end."""
    return "" if value is None else _cut(json.dumps(value, ensure_ascii=False), _ONE_LINE)


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def data_line(value: Any) -> Text:
    return Text(one_line(value))


def whole_line(value: Any) -> Text:
    """Show JSON data on one line, however long it is."""
    return Text("" if value is None else json.dumps(value, ensure_ascii=False))


def header_lines(value: Any) -> Text:
    return Text("\n".join(f"{name}: {text}" for name, text in (value or {}).items()))


def key_values(value: Any) -> Text:
    """Show the API's `[{"key": …, "value": …}]`."""
    return Text(", ".join(f"{one['key']}={one['value']}" for one in value or ()))


def length(value: Any) -> str:
    """Show seconds as `2d 3h`; nothing for none and for zero."""
    return format_duration(value) if value else ""


def age(value: Any) -> str:
    """Show how long ago a moment was."""
    moment_ = _moment(value)
    return "" if moment_ is None else format_duration(time.time() - moment_.timestamp())


def moment(value: Any) -> str:
    """Show an RFC 3339 moment on the clock of this machine."""
    moment_ = _moment(value)
    return str(value or "") if moment_ is None else moment_.strftime("%Y-%m-%d %H:%M:%S")


def clock_time(value: Any) -> str:
    """Show the time of day on the clock of this machine, to the millisecond."""
    moment_ = _moment(value)
    return " " * len("00:00:00.000") if moment_ is None else moment_.strftime("%H:%M:%S.%f")[:-3]


def verdict_line(reply: Document) -> Text:
    """Write the verdict on an event, the reason, and the status of the wait."""
    verdict = str(reply.get("verdict"))
    line = Text(verdict, style=_VERDICT_STYLES.get(verdict, "bold red"))
    line.append(f"  {reply.get('detail') or reply.get('reason')}", style="default")
    if reply.get("waitStatus"):
        line.append(f"  (the wait is {reply['waitStatus']})", style="dim")
    return line


@RightAligned
def number(value: Any) -> str:
    """Show a count as people read it; nothing where there is none."""
    return "" if value is None else f"{value:,}"


@RightAligned
def percent(value: Any) -> str:
    return f"{(value or 0) * 100:.0f} %"


@RightAligned
def milliseconds(value: Any) -> str:
    return "" if value is None else f"{value:.0f} ms"


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


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)).astimezone() if value else None
    except ValueError:
        return None


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
